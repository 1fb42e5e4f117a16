"""Shared parts of the coordinators that store their state in partitions of an internal topic.

The coordinator of one partition is a core: a command returns records and a reply, and only replay changes
the state. `shard.Shard` appends and replays the records and reports their commit. `shards.Shards` has a
shard for each partition that this node leads.
"""
