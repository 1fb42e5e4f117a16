"""Replication of one partition: the pure state of its leader and of its followers, without I/O."""
