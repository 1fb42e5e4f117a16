"""Connections from this node to other brokers and to the active controller."""
