"""One transaction whose end is decided, and the partitions that have to be told of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.protocol.ids import ProducerId, TopicPartition


@dataclass(slots=True, eq=False)
class Marking:
    """The markers of one transaction; compared by identity.

    `state_partition`: the partition of `__transaction_state` that keeps it. `coordinator_epoch`: the
    leader epoch of that partition. `is_cancelled`: another coordinator writes them.
    """

    transactional_id: str
    state_partition: int
    coordinator_epoch: int
    producer_id: ProducerId
    producer_epoch: int
    is_commit: bool
    transaction_version: int
    partitions: frozenset[TopicPartition]
    is_cancelled: bool = field(default=False)
