"""Divides ranges of offsets at the end of the tier: remote segments before it, the brokers' logs after it.

The end is exact: the first offset that no remote segment of the log's lineage contains. Records that are both
in the tier and on brokers' disks are read from the tier, which reduces the load of the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.remote.reading.lineage import SegmentPart
from tidelog.spark_connector.planning.ranges import AbortedRange, OffsetRange, split_ranges
from tidelog.spark_connector.planning.segment_slices import SegmentSlice, combine_neighbours

PartsOf = Callable[[OffsetRange], list[SegmentPart]]


@dataclass(frozen=True, slots=True)
class SliceTask:
    """What one task reads from the tier: neighbouring slices of one partition and their aborted transactions.

    `aborted` is None if records of aborted transactions are visible.
    """

    topic_partition: TopicPartition
    slices: tuple[SegmentSlice, ...]
    aborted: tuple[AbortedRange, ...] | None

    @property
    def start_offset(self) -> Offset:
        """The offset of the first record."""
        return self.slices[0].start_offset

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return self.slices[-1].end_offset


@dataclass(frozen=True, slots=True)
class TierSplit:
    """The parts of segments that the tier serves, by range, and the ranges that it does not serve."""

    parts: list[tuple[SegmentPart, ...]]
    rest: list[OffsetRange]

    @property
    def size_bytes(self) -> int:
        """The approximate number of bytes of segments to read."""
        return sum(part_bytes(part) for parts in self.parts for part in parts)


def split_at_tier_end(
    ranges: Iterable[OffsetRange], parts_of: PartsOf, max_records_per_partition: int | None
) -> TierSplit:
    """Divide each range at the end of the tier; remote parts have at most `max_records_per_partition`."""
    parts_by_range: list[tuple[SegmentPart, ...]] = []
    rest: list[OffsetRange] = []
    for offset_range in ranges:
        parts = parts_of(offset_range)
        tier_end = parts[-1].end_offset if parts else offset_range.start_offset
        tiered = OffsetRange(offset_range.topic_partition, offset_range.start_offset, tier_end)
        pieces = split_ranges(
            [tiered], min_partitions=None, max_records_per_partition=max_records_per_partition
        )
        # If segments are missing, a piece can have none.
        parts_by_range += [
            parts_of_piece for piece in pieces if (parts_of_piece := tuple(_clipped(parts, piece)))
        ]
        if tier_end < offset_range.end_offset:
            rest.append(OffsetRange(offset_range.topic_partition, tier_end, offset_range.end_offset))
    return TierSplit(parts_by_range, rest)


def bytes_per_task(max_bytes: int, total_bytes: int, min_partitions: int | None) -> int:
    """Return `max_bytes`, or less if there would be fewer tasks than `min_partitions`."""
    return max_bytes if min_partitions is None else max(1, min(max_bytes, -(-total_bytes // min_partitions)))


def needs_index(part: SegmentPart, max_bytes: int) -> bool:
    """Return whether the offset index is needed; not for a whole segment that is one slice."""
    metadata = part.metadata
    is_whole = part.start_offset <= metadata.start_offset and part.end_offset > metadata.end_offset
    return not is_whole or metadata.segment_size_bytes > max_bytes


def combine_into_tasks(
    slices: Iterable[SegmentSlice], max_bytes: int, aborted: Sequence[AbortedRange] | None
) -> list[SliceTask]:
    """Combine neighbouring slices into tasks, each with those of `aborted` that overlap it."""
    return [
        SliceTask(
            task[0].metadata.topic_id_partition.topic_partition,
            task,
            None if aborted is None else _overlapping(aborted, task[0].start_offset, task[-1].end_offset),
        )
        for task in combine_neighbours(slices, max_bytes)
    ]


def part_bytes(part: SegmentPart) -> int:
    """Return the approximate bytes of a part, by its share of the segment's offsets."""
    metadata = part.metadata
    offsets = metadata.end_offset + 1 - metadata.start_offset
    return metadata.segment_size_bytes * (part.end_offset - part.start_offset) // max(offsets, 1)


def _clipped(parts: Iterable[SegmentPart], offset_range: OffsetRange) -> Iterable[SegmentPart]:
    for part in parts:
        start, end = (
            max(part.start_offset, offset_range.start_offset),
            min(part.end_offset, offset_range.end_offset),
        )
        if start < end:
            yield SegmentPart(part.metadata, start, end)


def _overlapping(
    aborted: Sequence[AbortedRange], start_offset: Offset, end_offset: Offset
) -> tuple[AbortedRange, ...]:
    return tuple(
        transaction
        for transaction in aborted
        if transaction.last_offset >= start_offset and transaction.first_offset < end_offset
    )
