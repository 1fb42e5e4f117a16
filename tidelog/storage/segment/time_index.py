"""The time index of one segment (`.timeindex`): the largest timestamp up to an offset.

| bytes | field |
|---|---|
| 8 | timestamp in ms, int64 big-endian |
| 4 | offset - base offset, int32 big-endian |

An entry (t, o) means: every record at or before `o` has a timestamp <= t. Timestamps strictly
increase, offsets never fall. One slot is kept free for the entry that is written when the segment rolls.
Source: org.apache.kafka.storage.internals.log.TimeIndex of Apache Kafka 4.3, KIP-33.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.errors import CorruptIndex
from tidelog.storage.disk.files import File
from tidelog.storage.segment.segment_index import SegmentIndex

ENTRY_SIZE: Final = 12
NO_TIMESTAMP: Final = -1

_ENTRY: Final = struct.Struct(">qi")
_TIMESTAMP: Final = struct.Struct(">q")
_OFFSET: Final = struct.Struct(">i")
_OFFSET_AT: Final = 8
_MAX_RELATIVE_OFFSET: Final = 2**31 - 1


class TimestampOffset(NamedTuple):
    """A timestamp in ms and the offset of the record that has it."""

    timestamp: int
    offset: Offset


class TimeIndex(SegmentIndex):
    """Finds the offset from which a scan for a timestamp may start.

    Invariant: `last_entry` is the last entry, or (-1, base_offset) without entries.
    Bounds: `max_bytes` (segment.index.bytes).
    Errors: CorruptIndex from `sanity_check` and from reading a file that shrank.
    """

    __slots__ = ("last_entry",)

    last_entry: TimestampOffset

    def __init__(self, file: File, base_offset: Offset, max_bytes: int) -> None:
        # The spare slot is for the entry that the roll adds.
        super().__init__(file, base_offset, ENTRY_SIZE, max_bytes, spare_entries=1)

    def maybe_append(self, timestamp: int, offset: Offset, skip_full_check: bool = False) -> None:
        """Add an entry if `timestamp` is above the last one; an equal or older maximum is ignored.

        `skip_full_check` lets the roll take the last slot.
        """
        last_timestamp, last_offset = self.last_entry
        assert not self.is_full or skip_full_check, (
            f"{self.file.path} is full with {self.entry_count} entries"
        )
        if timestamp <= last_timestamp:
            assert timestamp == last_timestamp or not self.entry_count, (
                f"{self.file.path}: timestamp {timestamp} is below the last {last_timestamp}"
            )
            return
        assert offset >= last_offset or not self.entry_count, (
            f"{self.file.path}: offset {offset} is below the last {last_offset}"
        )
        relative = offset - self.base_offset
        assert 0 <= relative <= _MAX_RELATIVE_OFFSET, (
            f"{self.file.path}: offset {offset} is too far from {self.base_offset}"
        )
        self._collect(_ENTRY.pack(timestamp, relative))
        self.last_entry = TimestampOffset(timestamp, offset)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the entry with the largest timestamp <= `timestamp`; (-1, base_offset) if there is none."""
        slot = self._entries.first_slot_above(_TIMESTAMP, 0, timestamp)
        return self.entry(slot - 1) if slot else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def entry(self, slot: int) -> TimestampOffset:
        """Return the entry with number `slot`, counted from 0."""
        assert 0 <= slot < self._entries.count, f"{self.file.path} has no entry {slot}"
        timestamp, relative = _ENTRY.unpack(self._entries.entry(slot))
        return TimestampOffset(timestamp, self.base_offset + relative)

    def entries(self) -> Iterator[TimestampOffset]:
        """Yield every entry in order."""
        for slot in range(self._entries.count):
            yield self.entry(slot)

    def truncate_to(self, offset: Offset) -> None:
        """Remove the entries of `offset` and above."""
        if not self.entry_count or self.last_entry.offset < offset:
            return
        self._cut(self._entries.first_slot_above(_OFFSET, _OFFSET_AT, offset - self.base_offset - 1))

    def sanity_check(self) -> None:
        """Raise CorruptIndex if size, first or last entry is impossible (as fast as Kafka's check)."""
        self._entries.require_whole_entries()
        if not self._entries.count:
            return
        first, last = self.entry(0), self.last_entry
        if last.timestamp < first.timestamp:
            raise CorruptIndex(
                self.file.path, f"its last timestamp {last.timestamp} is below its first, {first.timestamp}"
            )
        if last.offset < self.base_offset:
            raise CorruptIndex(
                self.file.path, f"its last offset {last.offset} is below the base offset {self.base_offset}"
            )

    def _note_last(self) -> None:
        count = self._entries.count
        self.last_entry = self.entry(count - 1) if count else TimestampOffset(NO_TIMESTAMP, self.base_offset)
