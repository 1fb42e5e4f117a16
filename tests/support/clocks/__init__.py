"""Clocks and timers that a test sets."""
