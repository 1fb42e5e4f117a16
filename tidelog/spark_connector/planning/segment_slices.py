"""Divides remote segments into slices for tasks, at offsets that are in the offset index.

A slice is a range of offsets. Its positions are where these offsets are in the segment. They can include
batches of the neighbouring slices, which the reader skips.

Source: OffsetIndex of Apache Kafka: each entry is the offset of the last record of a batch, relative to the
segment's first, and the position of that batch; older versions give the position of the first of several
batches that were appended together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.reading.lineage import SegmentPart

IntegerColumn: TypeAlias = npt.NDArray[np.int64]

_ENTRY: Final = np.dtype(">i4")
_ENTRY_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class OffsetPositions:
    """The entries of an offset index: records after `offsets[i]` are at `positions[i]` or after it.

    Records up to `offsets[i]` are before `positions[i + 1]`. Both increase.
    """

    offsets: IntegerColumn
    positions: IntegerColumn

    @classmethod
    def empty(cls) -> OffsetPositions:
        """Return the entries for a segment of which only the size is known."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """The offsets [`start_offset`, `end_offset`) of a remote segment, and the positions that contain them."""

    metadata: RemoteLogSegmentMetadata
    start_offset: Offset
    end_offset: Offset
    start_position: int
    end_position: int
    anchor_offset: Offset | None = None
    """The entry of the index for `start_position`: the batch there starts at this offset or before it."""

    @property
    def size_bytes(self) -> int:
        """The number of bytes to fetch for it."""
        return self.end_position - self.start_position


def read_offset_index(data: bytes, metadata: RemoteLogSegmentMetadata) -> OffsetPositions:
    """Return the entries of a segment's offset index.

    Errors: DecodeError if they do not increase, or are outside the segment.
    """
    if len(data) % _ENTRY_BYTES:
        raise DecodeError(f"{metadata.remote_log_segment_id}: invalid offset index of {len(data)} bytes")
    entries = np.frombuffer(data, _ENTRY).astype(np.int64).reshape(-1, 2)
    offsets, positions = entries[:, 0] + metadata.start_offset, entries[:, 1]
    steps = np.diff(entries, axis=0, prepend=[[-1, -1]])
    is_good = (steps > 0).all(axis=1)
    is_good &= (offsets <= metadata.end_offset) & (positions < metadata.segment_size_bytes)
    if not is_good.all():
        bad = int(np.argmin(is_good))
        raise DecodeError(
            f"{metadata.remote_log_segment_id}: its offset index has offset {offsets[bad]} at byte "
            f"{positions[bad]} as entry {bad}"
        )
    return OffsetPositions(offsets, positions)


def divide_part(part: SegmentPart, index: OffsetPositions, max_bytes: int) -> list[SegmentSlice]:
    """Divide `part` into slices of about `max_bytes`, at least one.

    A slice is larger only if the index has no entry within it. `index` is from `read_offset_index`.
    """
    metadata, start_offset, end_offset = part
    offsets, size_bytes = index.offsets, metadata.segment_size_bytes
    # The records up to each entry end before these positions.
    ends = np.append(index.positions[1:], size_bytes)
    last_cut = int(np.searchsorted(offsets, end_offset - 1)) - 1
    end_position = int(ends[last_cut + 1]) if last_cut + 1 < len(offsets) else size_bytes
    result: list[SegmentSlice] = []
    # The last entry whose records are all below the start.
    entry = int(np.searchsorted(offsets, start_offset)) - 1
    while True:
        start_position = int(index.positions[entry]) if entry >= 0 else 0
        anchor = int(offsets[entry]) if entry >= 0 else None
        last_fitting = int(np.searchsorted(ends, start_position + max_bytes, side="right")) - 1
        last_entry = min(max(last_fitting, entry + 1), last_cut)
        if end_position - start_position <= max_bytes or last_entry <= entry:
            result.append(
                SegmentSlice(metadata, start_offset, end_offset, start_position, end_position, anchor)
            )
            return result
        boundary = int(offsets[last_entry]) + 1
        if boundary > start_offset:
            result.append(
                SegmentSlice(metadata, start_offset, boundary, start_position, int(ends[last_entry]), anchor)
            )
            start_offset = boundary
        entry = last_entry


def combine_neighbours(slices: Iterable[SegmentSlice], max_bytes: int) -> list[tuple[SegmentSlice, ...]]:
    """Combine neighbouring slices of one partition into tasks of at most `max_bytes`, or of one slice."""
    tasks: list[tuple[SegmentSlice, ...]] = []
    size = 0
    for segment_slice in slices:
        is_neighbour = (
            bool(tasks)
            and tasks[-1][-1].metadata.topic_id_partition == segment_slice.metadata.topic_id_partition
        )
        if is_neighbour and size + segment_slice.size_bytes <= max_bytes:
            tasks[-1] += (segment_slice,)
            size += segment_slice.size_bytes
        else:
            tasks.append((segment_slice,))
            size = segment_slice.size_bytes
    return tasks
