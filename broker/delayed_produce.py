"""An acks=all produce request that waits until every in-sync replica has its records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from broker.partition import Partition
from broker.purgatory.purgatory import DelayedOperation
from protocol.errors import ErrorCode
from protocol.ids import Offset
from protocol.produce_view import ProducePartitionResult


@dataclass(slots=True)
class Appended:
    """One partition's records in the leader's log: committed once `required_offset` is reached."""

    partition: Partition
    required_offset: Offset
    result: ProducePartitionResult

    @property
    def is_committed(self) -> bool:
        """Whether every in-sync replica has the records."""
        return self.partition.log.high_watermark >= self.required_offset


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
        super().__init__(delay_ms)
        self._open = appended
        self._on_answer = on_answer
        self._on_failed = on_failed

    def try_complete(self) -> bool:
        """Answer if nothing is open any more."""
        still_open: list[Appended] = []
        for one in self._open:
            outcome = one.partition.committed(one.required_offset)
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
        self._on_answer()

    def on_failure(self, error: Exception) -> None:
        """Answer that it is not known whether the records will be committed."""
        self._on_failed(error)
