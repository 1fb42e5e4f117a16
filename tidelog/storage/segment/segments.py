"""The segments of one log, in the order of their base offsets."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from tidelog.protocol.ids import Offset
from tidelog.storage.segment.segment import LogSegment


class Segments:
    """An ordered collection of segments, found by offset.

    Invariant: base offsets strictly increase. Only while a log is being opened is it empty.
    """

    __slots__ = ("_base_offsets", "_segments")

    def __init__(self) -> None:
        self._base_offsets: list[Offset] = []
        self._segments: list[LogSegment] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    @property
    def base_offsets(self) -> list[Offset]:
        """The base offset of each segment, in order."""
        return list(self._base_offsets)

    @property
    def first(self) -> LogSegment:
        """The oldest segment."""
        return self._segments[0]

    @property
    def active(self) -> LogSegment:
        """The newest segment, the only one that is appended to."""
        return self._segments[-1]

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all segments."""
        return sum(segment.size_bytes for segment in self._segments)

    def add(self, segment: LogSegment) -> None:
        """Insert a segment; there must be none with its base offset."""
        index = bisect_left(self._base_offsets, segment.base_offset)
        taken = index < len(self._base_offsets) and self._base_offsets[index] == segment.base_offset
        assert not taken, f"{segment.files.directory} already has a segment at {segment.base_offset}"
        self._base_offsets.insert(index, segment.base_offset)
        self._segments.insert(index, segment)

    def remove(self, segment: LogSegment) -> None:
        """Remove a segment; its files are not changed."""
        index = self._base_offsets.index(segment.base_offset)
        del self._base_offsets[index]
        del self._segments[index]

    def floor(self, offset: Offset) -> LogSegment | None:
        """Return the segment whose range contains `offset`; None below the first."""
        index = bisect_right(self._base_offsets, offset) - 1
        return self._segments[index] if index >= 0 else None

    def higher(self, base_offset: Offset) -> LogSegment | None:
        """Return the first segment after the one that starts at `base_offset`; None if there is none."""
        index = bisect_right(self._base_offsets, base_offset)
        return self._segments[index] if index < len(self._segments) else None

    def from_offset(self, offset: Offset) -> list[LogSegment]:
        """Return the segment that contains `offset`, or the first one, and all after it."""
        index = max(bisect_right(self._base_offsets, offset) - 1, 0)
        return self._segments[index:]

    def starting_above(self, offset: Offset) -> list[LogSegment]:
        """Return the segments whose base offset is above `offset`."""
        return self._segments[bisect_right(self._base_offsets, offset) :]

    def retire(self) -> None:
        """Stop opening files, as the directory is renamed; files that readers use stay open."""
        for segment in self._segments:
            segment.files.retire(has_path=False)

    def close(self) -> None:
        """Close every segment."""
        for segment in self._segments:
            segment.files.close()
