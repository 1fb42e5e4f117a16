"""Replication between brokers: what a leader asks of the controller, and the fetchers of followers."""
