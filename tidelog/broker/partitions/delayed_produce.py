"""An acks=all produce request that waits until every in-sync replica has its records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.cluster.replication.leader_state import LeaderState
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import Offset
from tidelog.protocol.produce_view import ProducePartitionResult


@dataclass(slots=True)
class Appended:
    """One partition's records in the log of `leader`: committed once `required_offset` is reached under it.

    Another leader may have cut them off, and have others committed at their offsets: so the role that
    took them must have lasted all the time, also while they were flushed.
    """

    partition: Partition
    leader: LeaderState | None
    required_offset: Offset
    result: ProducePartitionResult

    @property
    def is_committed(self) -> bool:
        """Whether every in-sync replica has the records."""
        partition = self.partition
        return partition.leader is self.leader and partition.log.high_watermark >= self.required_offset

    def outcome(self) -> ErrorCode | None:
        """What is to be answered; None while that is open."""
        partition = self.partition
        if partition.leader is not self.leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return partition.commit_outcome(self.required_offset)


class DelayedProduce(DelayedOperation):
    """Complete when it is known of every partition what became of the records.

    They are committed, or they are and the ISR has become too small (NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    or this node leads no more (NOT_LEADER_OR_FOLLOWER). What is still open at the deadline is
    REQUEST_TIMED_OUT. With each of these errors the records are in the log of who was the leader, and may
    yet be committed.
    """

    def __init__(
        self,
        delay_ms: int,
        appended: list[Appended],
        on_answer: Callable[[], None],
        on_failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(appended))
        self._open = appended
        self._on_answer: Callable[[], None] | None = on_answer
        self._on_failed: Callable[[Exception], None] | None = on_failed

    def try_complete(self) -> bool:
        """Answer if nothing is open any more."""
        still_open: list[Appended] = []
        for one in self._open:
            outcome = one.outcome()
            if outcome is None:
                still_open.append(one)
            else:
                one.result.error_code = outcome
        self._open = still_open
        return False if still_open else self.force_complete()

    def on_complete(self) -> None:
        """Answer; whatever is open at this moment has timed out."""
        for one in self._open:
            one.result.error_code = ErrorCode.REQUEST_TIMED_OUT
        assert self._on_answer is not None
        self._on_answer()

    def on_failure(self, error: Exception) -> None:
        """Answer that it is not known whether the records will be committed."""
        assert self._on_failed is not None
        self._on_failed(error)

    def release(self) -> None:
        """Drop the results and the callbacks, which refer to the request."""
        self._open = []
        self._on_answer = self._on_failed = None
