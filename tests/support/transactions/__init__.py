"""Transaction coordinators, transactional producers and partitions without a node."""
