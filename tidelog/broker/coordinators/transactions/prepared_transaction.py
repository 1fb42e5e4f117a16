"""One transaction that has been committed or aborted, and the partitions that need its marker."""

from __future__ import annotations

from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import ProducerId, TopicPartition


@dataclass(slots=True, eq=False)
class PreparedTransaction:
    """One prepared transaction, whose markers are being written; compared by identity.

    `state_partition` is the partition of `__transaction_state` that stores the transaction, and
    `coordinator_epoch` the leader epoch of that partition. `is_cancelled` is true if another coordinator
    writes the markers.
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

    def cancel(self) -> None:
        """Write no further marker: another coordinator writes them."""
        self.is_cancelled = True
