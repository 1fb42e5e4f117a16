"""What a batch query need not read, by the filters that Spark hands down. Spark checks every row again.

| column | what is left out |
|---|---|
| topic | topics that are not named |
| partition | partitions that are not named or not in between |
| offset | offsets below and above |
| timestamp | what stands before the first record that is not too old, by ListOffsets |

Timestamps that producers set are in no order. A record that is not too young may stand anywhere, so nothing
follows for the end of a range. Before the first that is not too old there is none that fits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import Enum, auto
from typing import Any, Final

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.spark_connector.planning.ranges import OffsetRange

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


class Relation(Enum):
    """How a column stands to a value; ONE_OF has several."""

    ONE_OF = auto()
    LESS = auto()
    LESS_OR_EQUAL = auto()
    GREATER = auto()
    GREATER_OR_EQUAL = auto()


@dataclass(frozen=True, slots=True)
class Comparison:
    """One filter; all of a query hold at once. Timestamps are datetimes with a time zone."""

    column: str
    relation: Relation
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Whole:
    """Whole numbers that may fit: `lowest` to `highest`, both inclusive, or without bound where None."""

    lowest: int | None = None
    highest: int | None = None
    choices: frozenset[int] | None = None

    def fits(self, number: int) -> bool:
        """Whether it may."""
        return (
            (self.lowest is None or number >= self.lowest)
            and (self.highest is None or number <= self.highest)
            and (self.choices is None or number in self.choices)
        )

    def and_(self, relation: Relation, numbers: tuple[int, ...]) -> Whole:
        """Fewer, by one more filter."""
        if relation is Relation.ONE_OF:
            choices = frozenset(numbers)
            return replace(self, choices=choices if self.choices is None else choices & self.choices)
        if relation in (Relation.GREATER, Relation.GREATER_OR_EQUAL):
            lowest = numbers[0] + (relation is Relation.GREATER)
            return replace(self, lowest=lowest if self.lowest is None else max(lowest, self.lowest))
        highest = numbers[0] - (relation is Relation.LESS)
        return replace(self, highest=highest if self.highest is None else min(highest, self.highest))

    def span(self) -> tuple[int | None, int | None]:
        """The lowest and the highest that may fit; with nothing left the lowest is above the highest."""
        if self.choices is None:
            return self.lowest, self.highest
        fitting = [number for number in self.choices if self.fits(number)]
        return (min(fitting), max(fitting)) if fitting else (1, 0)


@dataclass(frozen=True, slots=True)
class Pruning:
    """What the filters of a query leave to be read."""

    topics: frozenset[str] | None = None
    partitions: Whole = Whole()
    offsets: Whole = Whole()
    micros: Whole = Whole()

    def keeps(self, topic_partition: TopicPartition) -> bool:
        """Whether rows of the partition may fit."""
        topic, partition = topic_partition
        return (self.topics is None or topic in self.topics) and self.partitions.fits(partition)

    @property
    def first_timestamp_ms(self) -> int | None:
        """No older record fits; None where age does not matter, or not to those that have a timestamp."""
        lowest, _ = self.micros.span()
        if lowest is None:
            return None
        # Records have milliseconds: the first that is not before so many microseconds.
        first_ms = -(-lowest // 1_000)
        # Brokers look for no time before 1970, but there are records at -1.
        return None if first_ms < 0 else first_ms

    def narrow(
        self, ranges: Iterable[OffsetRange], first_offsets: Mapping[TopicPartition, Offset]
    ) -> list[OffsetRange]:
        """The parts of `ranges` where rows may fit, in their order.

        `first_offsets`: before them every record is older than `first_timestamp_ms`.
        """
        lowest, highest = self.offsets.span()
        narrowed = []
        for one in ranges:
            if not self.keeps(one.topic_partition):
                continue
            start = max(one.start_offset, lowest or 0, first_offsets.get(one.topic_partition, 0))
            end = one.end_offset if highest is None else min(one.end_offset, highest + 1)
            if start < end:
                narrowed.append(replace(one, start_offset=start, end_offset=end))
        return narrowed


def read_pruning(comparisons: Collection[Comparison]) -> Pruning:
    """What all of `comparisons` leave; those of other columns or odd values leave everything."""
    pruning = Pruning()
    for column, relation, values in ((one.column, one.relation, one.values) for one in comparisons):
        if column == "topic" and relation is Relation.ONE_OF and _all(values, str):
            named = frozenset(values)
            pruning = replace(pruning, topics=named if pruning.topics is None else named & pruning.topics)
        elif column == "partition" and _all(values, int):
            pruning = replace(pruning, partitions=pruning.partitions.and_(relation, values))
        elif column == "offset" and _all(values, int):
            pruning = replace(pruning, offsets=pruning.offsets.and_(relation, values))
        elif column == "timestamp" and _all(values, datetime):
            micros = tuple((value - _EPOCH) // _MICROSECOND for value in values)
            pruning = replace(pruning, micros=pruning.micros.and_(relation, micros))
    return pruning


def _all(values: tuple[Any, ...], kind: type) -> bool:
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)
