"""A DeleteRecords request that waits until all live replicas have advanced their log start offset."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import OPERATION_BYTES, PARTITION_BYTES, DelayedOperation
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import Offset, TopicPartition

NO_OFFSET: Final = -1


@dataclass(slots=True)
class Deletion:
    """The deletion in one partition: complete when the low watermark has reached `required_offset`."""

    partition: Partition
    required_offset: Offset
    low_watermark: Offset = NO_OFFSET
    """The low watermark at which the deletion was complete."""
    error_code: ErrorCode = ErrorCode.REQUEST_TIMED_OUT
    is_open: bool = True

    def check(self) -> bool:
        """Update the state; return whether the deletion is complete or has failed."""
        if not self.is_open:
            return True
        low_watermark = self.partition.low_watermark
        if low_watermark is None:
            self.error_code, self.is_open = ErrorCode.NOT_LEADER_OR_FOLLOWER, False
        elif low_watermark >= self.required_offset:
            self.low_watermark, self.error_code, self.is_open = low_watermark, ErrorCode.NONE, False
        return not self.is_open


class DelayedDeleteRecords(DelayedOperation):
    """Completes when no deletion is open, or after the delay.

    Deletions that are still open after the delay result in REQUEST_TIMED_OUT. `on_ready` sends the response.
    """

    def __init__(
        self, delay_ms: int, deletions: Mapping[TopicPartition, Deletion], on_ready: Callable[[], None]
    ) -> None:
        super().__init__(delay_ms, OPERATION_BYTES + PARTITION_BYTES * len(deletions))
        self._open: dict[Hashable, Deletion] = dict(deletions.items())
        self._on_ready: Callable[[], None] | None = on_ready

    def try_complete(self) -> bool:
        """Check all open deletions, and complete if none is left."""
        self._open = {key: deletion for key, deletion in self._open.items() if not deletion.check()}
        return not self._open and self.force_complete()

    def try_complete_at(self, key: Hashable) -> bool:
        """Check the deletion in the partition at `key`, and complete if none is left."""
        deletion = self._open.get(key)
        if deletion is not None and deletion.check():
            del self._open[key]
        return not self._open and self.force_complete()

    def on_complete(self) -> None:
        """Send the response, by `on_ready`."""
        assert self._on_ready is not None
        self._on_ready()

    def release(self) -> None:
        """Drop the deletions and the callback, which refers to the request."""
        self._open = {}
        self._on_ready = None
