"""Clocks and timers that a test controls."""
