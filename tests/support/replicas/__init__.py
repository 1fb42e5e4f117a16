"""Partitions, replicas and followers without a complete node."""
