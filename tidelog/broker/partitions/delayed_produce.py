"""An acks=all produce request that waits until all in-sync replicas have its records."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.base.dataclass import dataclass
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.cluster.replication.leader_state import LeaderState
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import Offset
from tidelog.protocol.views.produce_response_view import ProducePartitionResult


@dataclass(slots=True)
class PartitionAppend:
    """The records that were appended to one partition under the leader state `leader`.

    They are committed when the high watermark reaches `required_offset` under the same leader state. After a
    change of leaders they may have been truncated, and other records committed at their offsets.
    """

    partition: Partition
    leader: LeaderState | None
    required_offset: Offset
    result: ProducePartitionResult

    @property
    def is_committed(self) -> bool:
        """Whether all in-sync replicas have the records."""
        partition = self.partition
        return partition.leader is self.leader and partition.log.high_watermark >= self.required_offset

    def outcome(self) -> ErrorCode | None:
        """Return the error code of the partition's response; None if it is not known yet."""
        partition = self.partition
        if partition.leader is not self.leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return partition.commit_outcome(self.required_offset)


class DelayedProduce(DelayedOperation):
    """Completes when the outcome of every partition is known, or after the delay.

    The outcomes are: the records are committed; they are committed, but the ISR has become too small
    (NOT_ENOUGH_REPLICAS_AFTER_APPEND); this node is no longer the leader (NOT_LEADER_OR_FOLLOWER).
    Partitions without an outcome after the delay result in REQUEST_TIMED_OUT. With each of these errors, the
    records are in the log of this node, and may still be committed.
    """

    def __init__(
        self,
        delay_ms: int,
        appended: list[PartitionAppend],
        on_ready: Callable[[], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(appended))
        self._open = appended
        self._on_ready: Callable[[], None] | None = on_ready
        self._on_failed: Callable[[Exception], None] | None = on_failed

    def try_complete(self) -> bool:
        """Complete if no partition is open."""
        still_open: list[PartitionAppend] = []
        for append in self._open:
            outcome = append.outcome()
            if outcome is None:
                still_open.append(append)
            else:
                append.result.error_code = outcome
        self._open = still_open
        return False if still_open else self.force_complete()

    def on_complete(self) -> None:
        """Send the response, by `on_ready`; partitions without an outcome have timed out."""
        for append in self._open:
            append.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        assert self._on_ready is not None
        self._on_ready()

    def on_failure(self, error: Exception) -> None:
        """Respond that it is unknown whether the records will be committed."""
        assert self._on_failed is not None
        self._on_failed(error)

    def release(self) -> None:
        """Drop the results and the callbacks, which refer to the request."""
        self._open = []
        self._on_ready = self._on_failed = None
