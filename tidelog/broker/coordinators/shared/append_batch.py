"""The records of several commands that are appended to the log as one batch.

The batch is complete when its records are committed or when its append has failed: all of its commands have
the same result.

Bounds: `RECORDS_PER_BATCH_MAX` records and the bytes that the log allows. The records of one command may
exceed both; they are alone in their batch, and the log decides whether it accepts them.
I/O: none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeAlias

from tidelog.broker.coordinators.shared.encoded_records import EncodedRecords
from tidelog.broker.coordinators.shared.outcome import Writes
from tidelog.broker.coordinators.shared.timer import TimerHandle
from tidelog.protocol.batch import BATCH_OVERHEAD
from tidelog.protocol.errors import ErrorCode

logger = logging.getLogger(__name__)

CompletionCallback: TypeAlias = Callable[[ErrorCode], None]

RECORDS_PER_BATCH_MAX: Final = 500
"""The number of records that are collected in one batch, so that no append blocks the event loop for long."""

RECORD_OVERHEAD_BYTES_MAX: Final = 21
"""The largest number of bytes that a record without headers takes in addition to its key and value."""


def bytes_in_batch_max(encoded: EncodedRecords) -> int:
    """Return an upper bound of the bytes that `encoded` take in a batch that is not compressed."""
    return RECORD_OVERHEAD_BYTES_MAX * len(encoded.records) + encoded.size_bytes


class AppendBatch:
    """Records in the order of their commands, and a callback for each command.

    `records` and `encoded` are the same records, as values and as keys and values of the log. `keys` are
    those of commands that have a key.
    """

    __slots__ = ("_bytes_max", "_callbacks", "_size_bytes", "_time_limit", "encoded", "keys", "records")

    def __init__(self, bytes_max: int) -> None:
        """`bytes_max` is the largest batch that the log accepts."""
        self.records: list[Any] = []
        self.encoded = EncodedRecords()
        self.keys: set[Hashable] = set()
        self._callbacks: list[CompletionCallback] = []
        self._bytes_max = bytes_max
        self._size_bytes = BATCH_OVERHEAD
        self._time_limit: TimerHandle | None = None

    @property
    def is_full(self) -> bool:
        """Whether the batch should be appended before further records are added."""
        return len(self.records) >= RECORDS_PER_BATCH_MAX

    @property
    def is_complete(self) -> bool:
        """Whether the result is known and all callbacks have been called."""
        return not self._callbacks

    def has_room_for(self, size_bytes: int) -> bool:
        """Return whether records that take `size_bytes` can be added."""
        return self._size_bytes + size_bytes <= self._bytes_max

    def add(
        self,
        records: Sequence[Any],
        encoded: EncodedRecords,
        size_bytes: int,
        on_completed: CompletionCallback,
    ) -> None:
        """Add the records of one command, which take at most `size_bytes` in the batch."""
        self.records += records
        self.encoded.extend(encoded)
        self._size_bytes += size_bytes
        self._callbacks.append(on_completed)

    def release_records(self) -> None:
        """Release the memory of the records, which have been appended and replayed."""
        self.records, self.encoded = [], EncodedRecords()

    def limit_time(self, time_limit: TimerHandle) -> None:
        """Cancel `time_limit` when the batch is complete."""
        self._time_limit = time_limit

    def complete(self, error: ErrorCode) -> None:
        """Call all callbacks in the order of their commands; only the first result counts."""
        if self._time_limit is not None:
            self._time_limit.cancel()
            self._time_limit = None
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            complete_command(callback, error)


def complete_command(on_completed: CompletionCallback, error: ErrorCode) -> None:
    """Call `on_completed`; log its exception, which must not affect the results of other commands."""
    try:
        on_completed(error)
    except Exception:
        logger.exception("Cannot pass on the result %s of a coordinator's command", error.name)


def parts_of(writes: Writes[Any]) -> list[tuple[Writes[Any], bool]]:
    """Return parts of `writes` that each fit into one batch, and whether a part is the last one."""
    records = writes.records
    if not writes.may_split or len(records) <= RECORDS_PER_BATCH_MAX:
        return [(writes, True)]
    assert writes.follow_up is None, "writes that may be split have no follow-up"
    starts = range(0, len(records), RECORDS_PER_BATCH_MAX)
    return [(Writes(records[start : start + RECORDS_PER_BATCH_MAX]), start == starts[-1]) for start in starts]
