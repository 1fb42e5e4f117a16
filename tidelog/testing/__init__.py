"""Brokers for tests: `EmbeddedCluster` and the pytest fixture."""
