"""The offset index of one segment (`.index`): the positions of offsets in the segment.

| bytes | field |
|---|---|
| 4 | offset - base offset, int32 big-endian |
| 4 | position in the segment, int32 big-endian |

Entries are sparse; offsets and positions strictly increase.
Source: org.apache.kafka.storage.internals.log.OffsetIndex of Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.errors import CorruptIndex
from tidelog.storage.disk.files import File
from tidelog.storage.segment.segment_index import SegmentIndex

ENTRY_SIZE: Final = 8
MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_ENTRY: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")
_POSITION_AT: Final = 4


class OffsetPosition(NamedTuple):
    """An offset and where its batch starts in the segment, in bytes."""

    offset: Offset
    position: int


class OffsetIndex(SegmentIndex):
    """Finds the batch from which a scan for an offset may start.

    Invariant: `last_offset` is the last entry's, or `base_offset` without entries.
    Bounds: `max_bytes` (segment.index.bytes); the caller checks `is_full` before an append.
    Errors: CorruptIndex from `sanity_check` and from reading a file that shrank.
    """

    __slots__ = ("last_offset",)

    last_offset: Offset

    def __init__(self, file: File, base_offset: Offset, max_bytes: int) -> None:
        super().__init__(file, base_offset, ENTRY_SIZE, max_bytes)

    def append(self, offset: Offset, position: int) -> None:
        """Add an entry; `offset` must be above the last one, at most MAX_RELATIVE_OFFSET above the base."""
        assert not self.is_full, f"{self.file.path} is full with {self.entry_count} entries"
        assert offset > self.last_offset or not self.entry_count, (
            f"{self.file.path}: offset {offset} is not above the last entry's {self.last_offset}"
        )
        relative = offset - self.base_offset
        assert 0 <= relative <= MAX_RELATIVE_OFFSET, (
            f"{self.file.path}: offset {offset} is too far from {self.base_offset}"
        )
        self._collect(_ENTRY.pack(relative, position))
        self.last_offset = offset

    def lookup(self, offset: Offset) -> OffsetPosition:
        """Return the entry with the largest offset <= `offset`; (base_offset, 0) if there is none."""
        slot = self._entries.first_slot_above(_INT32, 0, offset - self.base_offset)
        return self.entry(slot - 1) if slot else OffsetPosition(self.base_offset, 0)

    def first_at_or_after_position(self, position: int) -> OffsetPosition | None:
        """Return the first entry at or after a position of the segment; None if there is none."""
        slot = self._entries.first_slot_above(_INT32, _POSITION_AT, position - 1)
        return self.entry(slot) if slot < self._entries.count else None

    def last_at_or_before_position(self, position: int) -> OffsetPosition | None:
        """Return the last entry at or before a position of the segment; None if there is none."""
        slot = self._entries.first_slot_above(_INT32, _POSITION_AT, position)
        return self.entry(slot - 1) if slot else None

    def entry(self, slot: int) -> OffsetPosition:
        """Return the entry with number `slot`, counted from 0."""
        assert 0 <= slot < self._entries.count, f"{self.file.path} has no entry {slot}"
        relative, position = _ENTRY.unpack(self._entries.entry(slot))
        return OffsetPosition(self.base_offset + relative, position)

    def entries(self) -> Iterator[OffsetPosition]:
        """Yield every entry in order."""
        for slot in range(self._entries.count):
            yield self.entry(slot)

    def truncate_to(self, offset: Offset) -> None:
        """Remove the entries of `offset` and above."""
        if not self.entry_count or self.last_offset < offset:
            return
        self._cut(self._entries.first_slot_above(_INT32, 0, offset - self.base_offset - 1))

    def sanity_check(self) -> None:
        """Raise CorruptIndex if the size or the last entry is impossible (as fast as Kafka's check)."""
        self._entries.require_whole_entries()
        if self._entries.count and self.last_offset < self.base_offset:
            raise CorruptIndex(
                self.file.path,
                f"its last offset {self.last_offset} is below the base offset {self.base_offset}",
            )

    def _note_last(self) -> None:
        count = self._entries.count
        self.last_offset = self.entry(count - 1).offset if count else self.base_offset
