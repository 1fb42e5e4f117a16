"""Offset ranges, and how they are divided into tasks.

Source: KafkaOffsetRangeCalculator of Apache Spark (SPARK-36576, SPARK-49259).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

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
    cut = [one for one in ranges if one.size > 0]
    if max_records_per_partition is not None:
        cut = [part for one in cut for part in _divided(one, -(-one.size // max_records_per_partition))]
    if min_partitions is None or len(cut) >= min_partitions:
        return cut
    total = sum(one.size for one in cut)
    # Ranges that stay whole are excluded from the proportion, so that the others reach the number together.
    stay_whole = [_part_count(one.size, total, min_partitions) == 1 for one in cut]
    split_total = total - sum(one.size for one, whole in zip(cut, stay_whole, strict=True) if whole)
    split_partitions = max(min_partitions - sum(stay_whole), 1)
    return [
        part
        for one, whole in zip(cut, stay_whole, strict=True)
        for part in _divided(one, 1 if whole else _part_count(one.size, split_total, split_partitions))
    ]


def _part_count(size: int, total: int, partitions: int) -> int:
    """Return the share of `partitions`, rounded half up, at least one."""
    return max((2 * size * partitions + total) // (2 * total), 1)


def _divided(one: OffsetRange, parts: int) -> Iterator[OffsetRange]:
    """Yield `parts` ranges whose sizes differ by at most one; fewer if there are fewer offsets."""
    start, left = one.start_offset, one.size
    for part in range(parts):
        size = left // (parts - part)
        left -= size
        if size > 0:
            yield OffsetRange(one.topic_partition, start, start + size)
        start += size
