"""Cutting remote segments into what one task reads: by offsets, at places that the offset index knows.

A slice is a range of offsets. Its positions say where in the segment these lie, and may reach into batches
of its neighbours, which whoever reads leaves out.

Source: OffsetIndex of Apache Kafka: each entry is the offset of the last record of a batch, relative to the
segment's first, and the position of that batch; older versions give the position of the first of several
batches that were appended together.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from protocol.errors import DecodeError
from protocol.ids import Offset
from remote.reader.lineage import SegmentPart
from remote.segment_metadata import RemoteLogSegmentMetadata

_ENTRY: Final = struct.Struct(">ii")


class IndexEntry(NamedTuple):
    """Records behind `offset` lie at `position` or after it, records up to it before the next entry's."""

    offset: Offset
    position: int


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """The offsets [`start_offset`, `end_offset`) of a remote segment, within the bytes [`start`, `end`)."""

    metadata: RemoteLogSegmentMetadata
    start_offset: Offset
    end_offset: Offset
    start_position: int
    end_position: int

    @property
    def size_bytes(self) -> int:
        """How much is fetched to read it."""
        return self.end_position - self.start_position


def read_offset_index(data: bytes, metadata: RemoteLogSegmentMetadata) -> list[IndexEntry]:
    """The entries of a segment's offset index.

    Errors: DecodeError when they do not rise, or lie outside the segment.
    """
    if len(data) % _ENTRY.size:
        raise DecodeError(f"{metadata.remote_log_segment_id}: an offset index of {len(data)} bytes")
    entries = [
        IndexEntry(metadata.start_offset + offset, position) for offset, position in _ENTRY.iter_unpack(data)
    ]
    previous = IndexEntry(metadata.start_offset - 1, -1)
    for entry in entries:
        is_inside = entry.offset <= metadata.end_offset and entry.position < metadata.segment_size_bytes
        if not is_inside or entry.offset <= previous.offset or entry.position <= previous.position:
            raise DecodeError(
                f"{metadata.remote_log_segment_id}: {entry} behind {previous} in its offset index"
            )
        previous = entry
    return entries


def slices(part: SegmentPart, index: Sequence[IndexEntry], max_bytes: int) -> list[SegmentSlice]:
    """`part` in slices of about `max_bytes`, at least one; each is larger only where the index has no entry.

    `index` as `read_offset_index` gives it.
    """
    metadata, start_offset, end_offset = part
    cut: list[SegmentSlice] = []
    start, start_position = start_offset, _position_before(index, start_offset)
    for at, entry in enumerate(index):
        boundary = entry.offset + 1
        if boundary <= start or boundary >= end_offset:
            continue
        behind = index[at + 1].position if at + 1 < len(index) else metadata.segment_size_bytes
        # The next possible boundary would make the slice too large: it ends at this one.
        following = index[at + 2].position if at + 2 < len(index) else metadata.segment_size_bytes
        if following - start_position > max_bytes:
            cut.append(SegmentSlice(metadata, start, boundary, start_position, behind))
            start, start_position = boundary, entry.position
    cut.append(SegmentSlice(metadata, start, end_offset, start_position, _position_behind(index, part)))
    return cut


def pack(sliced: Iterable[SegmentSlice], max_bytes: int) -> list[tuple[SegmentSlice, ...]]:
    """Neighbours of one partition put together into tasks of at most `max_bytes`, or of one slice."""
    tasks: list[tuple[SegmentSlice, ...]] = []
    size = 0
    for one in sliced:
        same = bool(tasks) and tasks[-1][-1].metadata.topic_id_partition == one.metadata.topic_id_partition
        if same and size + one.size_bytes <= max_bytes:
            tasks[-1] += (one,)
            size += one.size_bytes
        else:
            tasks.append((one,))
            size = one.size_bytes
    return tasks


def _position_before(index: Sequence[IndexEntry], offset: Offset) -> int:
    """Where records from `offset` on can begin: the last entry whose records are all below it."""
    below = bisect_left(index, offset, key=_offset_of)
    return index[below - 1].position if below else 0


def _position_behind(index: Sequence[IndexEntry], part: SegmentPart) -> int:
    """Behind which no record of the part lies: the entry after the one that covers its end."""
    behind = bisect_left(index, part.end_offset - 1, key=_offset_of) + 1
    return index[behind].position if behind < len(index) else part.metadata.segment_size_bytes


def _offset_of(entry: IndexEntry) -> Offset:
    return entry.offset
