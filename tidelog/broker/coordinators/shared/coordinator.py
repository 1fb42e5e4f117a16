"""The core of one partition as its shard uses it, and the format of its records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Writes
from tidelog.protocol.ids import Offset


class Coordinator(Protocol):
    """The core of one partition. Only `replay` changes the state that a restart must restore."""

    def replay(self, record: Any, record_offset: Offset, /) -> None:
        """Apply one record of the log."""

    def advance(self, high_watermark: Offset, /) -> None:
        """Note that the records below `high_watermark` are committed."""

    def finish_loading(self, now: Moment, /) -> Sequence[Writes[Any]]:
        """Note that all records of the log are replayed. Return the first writes."""
        ...

    def next_deadline_ms(self) -> int | None:
        """Return the monotonic time of the next call of `tick`; None if no deadline is set."""
        ...

    def tick(self, now: Moment, /) -> Iterable[Writes[Any]]:
        """Handle the deadlines that have expired. Return the records to write.

        Each part is written before the next one is requested.
        """
        ...

    def resign(self) -> None:
        """Fail all waiting requests, because another node leads the partition, and drop the state."""


CoordinatorT = TypeVar("CoordinatorT", bound=Coordinator)


class RecordFormat(NamedTuple, Generic[CoordinatorT]):
    """The functions that encode and replay a coordinator's records.

    `encode` returns the key and the value of a record. `replay_batches` replays batches one after the other
    and yields the record count and the next offset of each. It raises DecodeError for an invalid record.
    `size_bytes_min` returns a number of bytes that key and value have at least, without encoding them.
    """

    encode: Callable[[Any], tuple[bytes, bytes | None]]
    replay_batches: Callable[[CoordinatorT, bytes | memoryview], Iterator[tuple[int, Offset]]]
    size_bytes_min: Callable[[Any], int] = lambda record: 0
