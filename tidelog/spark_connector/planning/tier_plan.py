"""Ranges of offsets cut at the border of the tier: below it slices of remote segments, the rest for brokers.

The border is exact: the first offset that no remote segment of the log's lineage serves. What is both in the
tier and on brokers' disks is read from the tier, which spares the brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.remote.reading.lineage import SegmentPart
from tidelog.spark_connector.planning.ranges import AbortedRange, OffsetRange, split_ranges
from tidelog.spark_connector.planning.segment_slices import SegmentSlice, pack

PartsOf = Callable[[OffsetRange], list[SegmentPart]]


@dataclass(frozen=True, slots=True)
class SliceTask:
    """What one task reads from the tier: neighbours of one partition, and the aborted transactions in them.

    `aborted` is None where records of such are shown.
    """

    topic_partition: TopicPartition
    slices: tuple[SegmentSlice, ...]
    aborted: tuple[AbortedRange, ...] | None

    @property
    def start_offset(self) -> Offset:
        """Of the first record."""
        return self.slices[0].start_offset

    @property
    def end_offset(self) -> Offset:
        """Behind the last record."""
        return self.slices[-1].end_offset


@dataclass(frozen=True, slots=True)
class TierCut:
    """What the tier serves, in parts of segments, range by range; and what it does not."""

    parts: list[tuple[SegmentPart, ...]]
    rest: list[OffsetRange]

    @property
    def size_bytes(self) -> int:
        """About how much of the segments is read."""
        return sum(part_bytes(part) for parts in self.parts for part in parts)


def cut_at_border(
    ranges: Iterable[OffsetRange], parts_of: PartsOf, max_records_per_partition: int | None
) -> TierCut:
    """Each range up to the border and behind it; the first no longer than `max_records_per_partition`."""
    cold: list[tuple[SegmentPart, ...]] = []
    rest: list[OffsetRange] = []
    for one in ranges:
        parts = parts_of(one)
        border = parts[-1].end_offset if parts else one.start_offset
        below = OffsetRange(one.topic_partition, one.start_offset, border)
        pieces = split_ranges(
            [below], min_partitions=None, max_records_per_partition=max_records_per_partition
        )
        # Where segments are missing, a piece may have none.
        cold += [within for piece in pieces if (within := tuple(_within(parts, piece)))]
        if border < one.end_offset:
            rest.append(OffsetRange(one.topic_partition, border, one.end_offset))
    return TierCut(cold, rest)


def bytes_per_task(max_bytes: int, total_bytes: int, min_partitions: int | None) -> int:
    """`max_bytes`, or less if there would be too few tasks."""
    return max_bytes if min_partitions is None else max(1, min(max_bytes, -(-total_bytes // min_partitions)))


def needs_index(part: SegmentPart, max_bytes: int) -> bool:
    """Whether the offset index tells what to leave out: of a whole segment that is one slice it does not."""
    metadata = part.metadata
    is_whole = part.start_offset <= metadata.start_offset and part.end_offset > metadata.end_offset
    return not is_whole or metadata.segment_size_bytes > max_bytes


def slice_tasks(
    sliced: Iterable[SegmentSlice], max_bytes: int, aborted: Sequence[AbortedRange] | None
) -> list[SliceTask]:
    """Neighbouring slices as tasks; `aborted` overlap all of them."""
    return [
        SliceTask(
            task[0].metadata.topic_id_partition.topic_partition,
            task,
            None if aborted is None else _overlapping(aborted, task[0].start_offset, task[-1].end_offset),
        )
        for task in pack(sliced, max_bytes)
    ]


def part_bytes(part: SegmentPart) -> int:
    """About how many bytes of its segment a part has, by its share of the offsets."""
    metadata = part.metadata
    offsets = metadata.end_offset + 1 - metadata.start_offset
    return metadata.segment_size_bytes * (part.end_offset - part.start_offset) // max(offsets, 1)


def _within(parts: Iterable[SegmentPart], wanted: OffsetRange) -> Iterable[SegmentPart]:
    for part in parts:
        start, end = max(part.start_offset, wanted.start_offset), min(part.end_offset, wanted.end_offset)
        if start < end:
            yield SegmentPart(part.metadata, start, end)


def _overlapping(
    aborted: Sequence[AbortedRange], start_offset: Offset, end_offset: Offset
) -> tuple[AbortedRange, ...]:
    return tuple(one for one in aborted if one.last_offset >= start_offset and one.first_offset < end_offset)
