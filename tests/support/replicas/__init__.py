"""Partitions, replicas and followers without a whole node."""
