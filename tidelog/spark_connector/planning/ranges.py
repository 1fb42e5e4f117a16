"""Offset ranges, and how they are divided into tasks.

Source: KafkaOffsetRangeCalculator of Apache Spark (SPARK-36576, SPARK-49259).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, ProducerId, TopicPartition


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets from `start_offset` to `end_offset` (exclusive) of one partition."""

    topic_partition: TopicPartition
    start_offset: Offset
    end_offset: Offset

    @property
    def size(self) -> int:
        """The number of offsets; there may be fewer records."""
        return self.end_offset - self.start_offset


class AbortedRange(NamedTuple):
    """An aborted transaction: its producer, its first record and its abort marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """Divide `ranges` into ranges of about equal size, none empty, in the given order.

    Each has at most `max_records_per_partition` offsets. If there are fewer than `min_partitions`, the larger
    ones are divided further in proportion. `min_partitions` is a hint: rounding can give a few more or less.
    """
    pieces = [offset_range for offset_range in ranges if offset_range.size > 0]
    if max_records_per_partition is not None:
        pieces = [
            part
            for offset_range in pieces
            for part in _divide(offset_range, -(-offset_range.size // max_records_per_partition))
        ]
    if min_partitions is None or len(pieces) >= min_partitions:
        return pieces
    total = sum(offset_range.size for offset_range in pieces)
    # Ranges that stay whole are excluded from the proportion, so that the others reach the number together.
    stay_whole = [_part_count(offset_range.size, total, min_partitions) == 1 for offset_range in pieces]
    split_total = total - sum(
        offset_range.size for offset_range, whole in zip(pieces, stay_whole, strict=True) if whole
    )
    split_partitions = max(min_partitions - sum(stay_whole), 1)
    return [
        part
        for offset_range, whole in zip(pieces, stay_whole, strict=True)
        for part in _divide(
            offset_range, 1 if whole else _part_count(offset_range.size, split_total, split_partitions)
        )
    ]


def _part_count(size: int, total: int, partitions: int) -> int:
    """Return the share of `partitions`, rounded half up, at least one."""
    return max((2 * size * partitions + total) // (2 * total), 1)


def _divide(offset_range: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    """Yield `parts` ranges whose sizes differ by at most one; fewer if there are fewer offsets."""
    start, remaining = offset_range.start_offset, offset_range.size
    for part in range(parts):
        size = remaining // (parts - part)
        remaining -= size
        if size > 0:
            yield OffsetRange(offset_range.topic_partition, start, start + size)
        start += size
