"""Parked operations and the timers that end their waiting."""
