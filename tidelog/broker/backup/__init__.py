"""Backups of a cluster's metadata and committed offsets in the bucket of tiered storage.

archive      the file format of one backup (pure)
catalog      the backups in an object store: list, read, write, expire
collection   the committed offsets of all groups and the offsets of all partitions, from brokers
task         the periodic backup of the active controller
contents     what a cluster is restored with: first records, topics, offsets (pure)
"""
