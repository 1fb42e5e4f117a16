"""What coordinators share that keep their state in partitions of an internal topic.

A coordinator of one partition is a core: commands give records and a reply, only replay changes
state. `shard.Shard` appends its records, replays them and settles them when they are committed;
`shards.Shards` follows which partitions this node leads.
"""
