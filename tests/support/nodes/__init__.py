"""Whole nodes for tests: on a simulated disk, as a quorum, as a cluster, in processes that are killed."""
