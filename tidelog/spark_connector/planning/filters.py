"""Derives from Spark's pushed-down filters what a batch query need not read. Spark checks every row again.

| column | what is skipped |
|---|---|
| topic | topics that are not named |
| partition | partitions that are not named or outside the bounds |
| offset | offsets outside the bounds |
| timestamp | records before the first one that is new enough (ListOffsets) |

Timestamps set by producers are unordered. A record that is old enough can be anywhere, so an upper bound
skips nothing. No record before the first one that is new enough can match, so a lower bound does.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any, Final

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.ranges import OffsetRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Relation(Enum):
    """How a column compares with a value; ONE_OF has several values."""

    ONE_OF = auto()
    LESS = auto()
    LESS_OR_EQUAL = auto()
    GREATER = auto()
    GREATER_OR_EQUAL = auto()


@dataclass(frozen=True, slots=True)
class Comparison:
    """One filter of a query; a row must match all of them. Timestamps are datetimes with a time zone."""

    column: str
    relation: Relation
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IntegerRange:
    """The whole numbers that can match: `lowest` to `highest`, both inclusive; None is unbounded."""

    lowest: int | None = None
    highest: int | None = None
    choices: frozenset[int] | None = None

    def fits(self, number: int) -> bool:
        """Return whether `number` can match."""
        return (
            (self.lowest is None or number >= self.lowest)
            and (self.highest is None or number <= self.highest)
            and (self.choices is None or number in self.choices)
        )

    def intersect(self, relation: Relation, numbers: tuple[int, ...]) -> IntegerRange:
        """Return the numbers that can match one more filter as well."""
        if relation is Relation.ONE_OF:
            choices = frozenset(numbers)
            return replace(self, choices=choices if self.choices is None else choices & self.choices)
        if relation in (Relation.GREATER, Relation.GREATER_OR_EQUAL):
            lowest = numbers[0] + (relation is Relation.GREATER)
            return replace(self, lowest=lowest if self.lowest is None else max(lowest, self.lowest))
        highest = numbers[0] - (relation is Relation.LESS)
        return replace(self, highest=highest if self.highest is None else min(highest, self.highest))

    def span(self) -> tuple[int | None, int | None]:
        """Return the lowest and the highest match; if there is none, the lowest is above the highest."""
        if self.choices is None:
            return self.lowest, self.highest
        matches = [number for number in self.choices if self.fits(number)]
        return (min(matches), max(matches)) if matches else (1, 0)


@dataclass(frozen=True, slots=True)
class Pruning:
    """The topics, partitions, offsets and timestamps that the filters of a query allow."""

    topics: frozenset[str] | None = None
    partitions: IntegerRange = IntegerRange()
    offsets: IntegerRange = IntegerRange()
    micros: IntegerRange = IntegerRange()

    def includes(self, topic_partition: TopicPartition) -> bool:
        """Return whether rows of the partition can match."""
        topic, partition = topic_partition
        return (self.topics is None or topic in self.topics) and self.partitions.fits(partition)

    @property
    def first_timestamp_ms(self) -> int | None:
        """The lowest timestamp that can match; None if every record with a timestamp can."""
        lowest, _ = self.micros.span()
        if lowest is None:
            return None
        # Records have milliseconds: take the first one at or after this number of microseconds.
        first_ms = -(-lowest // 1_000)
        # Brokers do not search for times before 1970, but records without a timestamp have -1.
        return None if first_ms < 0 else first_ms

    def narrow(
        self, ranges: Iterable[OffsetRange], first_offsets: Mapping[TopicPartition, Offset]
    ) -> list[OffsetRange]:
        """Return the parts of `ranges` in which rows can match, in their order.

        Before `first_offsets`, every record is older than `first_timestamp_ms`.
        """
        lowest, highest = self.offsets.span()
        narrowed = []
        for offset_range in ranges:
            if not self.includes(offset_range.topic_partition):
                continue
            start = max(
                offset_range.start_offset, lowest or 0, first_offsets.get(offset_range.topic_partition, 0)
            )
            end = offset_range.end_offset if highest is None else min(offset_range.end_offset, highest + 1)
            if start < end:
                narrowed.append(replace(offset_range, start_offset=start, end_offset=end))
        return narrowed


def read_pruning(comparisons: Collection[Comparison]) -> Pruning:
    """Combine `comparisons`. Those of other columns, or with values of unexpected types, have no effect."""
    pruning = Pruning()
    for column, relation, values in (
        (comparison.column, comparison.relation, comparison.values) for comparison in comparisons
    ):
        if column == "topic" and relation is Relation.ONE_OF and _all_are(values, str):
            topics = frozenset(values)
            pruning = replace(pruning, topics=topics if pruning.topics is None else topics & pruning.topics)
        elif column == "partition" and _all_are(values, int):
            pruning = replace(pruning, partitions=pruning.partitions.intersect(relation, values))
        elif column == "offset" and _all_are(values, int):
            pruning = replace(pruning, offsets=pruning.offsets.intersect(relation, values))
        elif column == "timestamp" and _all_are(values, datetime):
            micros = tuple((value - _EPOCH) // _MICROSECOND for value in values)
            pruning = replace(pruning, micros=pruning.micros.intersect(relation, micros))
    return pruning


def _all_are(values: tuple[Any, ...], kind: type) -> bool:
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)
