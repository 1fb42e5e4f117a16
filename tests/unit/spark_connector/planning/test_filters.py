"""Filters never omit a matching row, whatever the order of timestamps."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.filters import Comparison, Pruning, Relation, read_pruning
from tidelog.spark_connector.planning.ranges import OffsetRange

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
HOLDS: Final = {
    Relation.LESS: operator.lt,
    Relation.LESS_OR_EQUAL: operator.le,
    Relation.GREATER: operator.gt,
    Relation.GREATER_OR_EQUAL: operator.ge,
}


class Row(NamedTuple):
    """The columns that filters use."""

    topic: str
    partition: int
    offset: int
    timestamp: datetime


def time_at(micros: int) -> datetime:
    return EPOCH + timedelta(microseconds=micros)


def comparisons(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Comparison]:
    several = st.lists(values, max_size=3).map(tuple)
    one_of = st.builds(Comparison, st.just(column), st.just(Relation.ONE_OF), several)
    bounds = st.builds(
        Comparison, st.just(column), st.sampled_from(list(HOLDS)), values.map(lambda value: (value,))
    )
    return one_of | bounds


FILTERS = st.lists(
    comparisons("topic", st.sampled_from(["a", "b", "c"]))
    | comparisons("partition", st.integers(-1, 3))
    | comparisons("offset", st.integers(-1, 12))
    | comparisons("timestamp", st.integers(-2_000, 9_000).map(time_at))
    | comparisons("timestampType", st.integers(0, 1)),
    max_size=4,
)
# In ms, of the records of two partitions of two topics each, in no order. -1: a record without timestamp.
LOGS = st.fixed_dictionaries(
    {
        TopicPartition(topic, partition): st.lists(st.integers(-1, 8), max_size=10)
        for topic in "ab"
        for partition in (0, 2)
    }
)


def matches(row: Row, filters: list[Comparison]) -> bool:
    for one in filters:
        if one.column == "timestampType":
            continue
        value = getattr(row, one.column)
        if one.relation is Relation.ONE_OF:
            if value not in one.values:
                return False
        elif not HOLDS[one.relation](value, one.values[0]):
            return False
    return True


def rows_of(logs: dict[TopicPartition, list[int]], ranges: list[OffsetRange]) -> set[Row]:
    return {
        Row(*one.topic_partition, offset, time_at(1_000 * logs[one.topic_partition][offset]))
        for one in ranges
        for offset in range(one.start_offset, one.end_offset)
    }


@given(LOGS, FILTERS, st.integers(0, 3))
def test_pruned_ranges_hold_every_matching_row(
    logs: dict[TopicPartition, list[int]], filters: list[Comparison], start: int
) -> None:
    ranges = [OffsetRange(one, min(start, len(log)), len(log)) for one, log in sorted(logs.items())]
    pruning = read_pruning(filters)
    firsts = {}
    if (first_ms := pruning.first_timestamp_ms) is not None:
        firsts = {
            one: next((offset for offset, ms in enumerate(log) if ms >= first_ms), len(log))
            for one, log in logs.items()
        }
    left = pruning.narrow(ranges, firsts)
    assert all(one.size > 0 for one in left)
    expected = {row for row in rows_of(logs, ranges) if matches(row, filters)}
    assert {row for row in rows_of(logs, left) if matches(row, filters)} == expected


def test_filters_narrow_topics_partitions_and_offsets() -> None:
    ranges = [OffsetRange(TopicPartition(topic, number), 0, 100) for topic in "ab" for number in range(3)]
    pruning = read_pruning(
        [
            Comparison("topic", Relation.ONE_OF, ("b",)),
            Comparison("partition", Relation.GREATER, (0,)),
            Comparison("partition", Relation.ONE_OF, (0, 1)),
            Comparison("offset", Relation.GREATER_OR_EQUAL, (10,)),
            Comparison("offset", Relation.LESS, (20,)),
        ]
    )
    assert pruning.narrow(ranges, {}) == [OffsetRange(TopicPartition("b", 1), 10, 20)]
    one = read_pruning(
        [Comparison("offset", Relation.ONE_OF, (7, 9)), Comparison("offset", Relation.LESS, (9,))]
    )
    assert one.narrow(ranges[:1], {}) == [OffsetRange(TopicPartition("a", 0), 7, 8)]


def test_a_timestamp_filter_narrows_the_start_rounded_up_to_milliseconds() -> None:
    def first_ms(relation: Relation, micros: int) -> int | None:
        return read_pruning([Comparison("timestamp", relation, (time_at(micros),))]).first_timestamp_ms

    assert first_ms(Relation.GREATER_OR_EQUAL, 5_000) == 5
    assert first_ms(Relation.GREATER_OR_EQUAL, 5_001) == 6
    assert first_ms(Relation.GREATER, 5_000) == 6
    assert first_ms(Relation.GREATER, 4_999) == 5
    assert first_ms(Relation.GREATER, -999) == 0
    assert first_ms(Relation.GREATER, -1_001) is None
    assert first_ms(Relation.LESS, 5_000) is None


def test_filters_on_other_columns_narrow_nothing() -> None:
    odd = [
        Comparison("key", Relation.ONE_OF, (b"k",)),
        Comparison("topic", Relation.GREATER, ("a",)),
        Comparison("partition", Relation.ONE_OF, (None, 1)),
        Comparison("offset", Relation.LESS, (1.5,)),
    ]
    assert read_pruning(odd) == Pruning()
