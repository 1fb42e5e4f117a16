"""A DeleteRecords request that waits until every replica that is alive has forgotten the records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset

NO_OFFSET = -1


@dataclass(slots=True)
class Deleted:
    """One partition's deletion: done when the low watermark has reached `required_offset`."""

    partition: Partition
    required_offset: Offset
    low_watermark: Offset = NO_OFFSET
    error_code: ErrorCode = ErrorCode.REQUEST_TIMED_OUT
    is_open: bool = True

    def check(self) -> bool:
        """Look again; True when nothing is left to wait for."""
        if not self.is_open:
            return True
        try:
            low_watermark = self.partition.low_watermark
        except KafkaError as error:
            self.error_code, self.is_open = error.code, False
        else:
            if low_watermark >= self.required_offset:
                self.low_watermark, self.error_code, self.is_open = low_watermark, ErrorCode.NONE, False
        return not self.is_open


def check_all(deleted: list[Deleted]) -> bool:
    """Look at each: it keeps the low watermark of the moment at which that was enough."""
    left = [one for one in deleted if not one.check()]
    return not left


class DelayedDeleteRecords(DelayedOperation):
    """Complete when it is known of every partition; what is open at the deadline is REQUEST_TIMED_OUT."""

    def __init__(self, delay_ms: int, deleted: list[Deleted], on_answer: Callable[[], None]) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(deleted))
        self._deleted = deleted
        self._on_answer: Callable[[], None] | None = on_answer

    def try_complete(self) -> bool:
        """Answer if nothing is open any more."""
        return check_all(self._deleted) and self.force_complete()

    def on_complete(self) -> None:
        """Answer with what is known."""
        assert self._on_answer is not None
        self._on_answer()

    def release(self) -> None:
        """Drop the deletions and the callback, which refers to the request."""
        self._deleted = []
        self._on_answer = None
