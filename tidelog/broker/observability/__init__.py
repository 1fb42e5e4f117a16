"""Metrics, health and logs of a node."""
