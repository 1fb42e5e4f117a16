"""The share coordinator: the delivery states of the records of share groups (KIP-932).

The state of one share partition is a start offset and the ranges of records above it that are in delivery.
It is stored in `__share_group_state`, and survives the move of the partition's leader. `persister` is the
port through which the leaders of partitions and the group coordinator read and write it.
"""
