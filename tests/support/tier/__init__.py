"""Remote storage for tests: segments, stores, metadata and whole tiers."""
