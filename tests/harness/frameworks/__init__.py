"""Runs the examples of frameworks, each with its own packages, against a broker."""
