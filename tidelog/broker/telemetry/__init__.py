"""Metrics of clients (KIP-714): subscriptions, the instances of clients, receivers of their metrics."""
