"""Partition logs for tests: batches, whole logs, log managers, compaction, and checks of their files."""
