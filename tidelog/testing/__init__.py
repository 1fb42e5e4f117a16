"""A real broker for tests: `EmbeddedCluster` and the pytest fixtures."""
