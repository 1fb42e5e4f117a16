"""Offsets as text, queries for offsets, and ranges."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.data_loss import plan_batch, trim_to_log_start
from tidelog.spark_connector.planning.offset_specs import (
    AtOffsets,
    AtTimestamp,
    Bound,
    require_match,
    required_lookups,
)
from tidelog.spark_connector.planning.offsets_json import from_json_object, to_json_object, to_text
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import OffsetRange, split_ranges
from tidelog.spark_connector.planning.trigger_limits import limit_end, should_wait

FIRST, SECOND = TopicPartition("tides", 0), TopicPartition("tides", 1)

offsets = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 200)), st.integers(0, 2**62)
)


def test_topics_are_sorted_by_name_and_partitions_by_number() -> None:
    unsorted = {TopicPartition("b", 10): 1, TopicPartition("b", 2): 2, TopicPartition("a", 0): 3}
    assert to_text(unsorted) == '{"a":{"0":3},"b":{"2":2,"10":1}}'


@given(offsets, st.randoms())
def test_offsets_json_is_canonical_and_read_back(
    partition_offsets: dict[TopicPartition, int], randomness: object
) -> None:
    shuffled_items = list(partition_offsets.items())
    randomness.shuffle(shuffled_items)  # type: ignore[attr-defined]
    assert to_text(dict(shuffled_items)) == to_text(partition_offsets)
    assert from_json_object(json.loads(to_text(partition_offsets))) == partition_offsets
    assert from_json_object(to_json_object(partition_offsets)) == partition_offsets


def test_offsets_json_of_sparks_source_is_read() -> None:
    assert from_json_object(json.loads('{"tides":{"1":7,"0":23}}')) == {FIRST: 23, SECOND: 7}


def test_starting_bounds_and_timestamps_are_queried_and_offsets_are_not() -> None:
    mixed = required_lookups(AtOffsets("startingOffsets", {FIRST: 5, SECOND: -2}), [FIRST, SECOND])
    assert (mixed.explicit, mixed.bounds) == ({FIRST: 5}, {SECOND: -2})
    assert required_lookups(Bound.LATEST, [FIRST]).bounds == {FIRST: -1}
    assert required_lookups(AtTimestamp("startingTimestamp", 9), [FIRST]).timestamps == {FIRST: 9}


@pytest.mark.parametrize(
    ("there", "text"),
    [([FIRST, SECOND], "it lacks tides-1"), ([SECOND], "lacks tides-1"), ([], "names tides-0")],
)
def test_offsets_are_required_for_exactly_the_read_partitions(there: list[TopicPartition], text: str) -> None:
    with pytest.raises(OptionError, match=f"startingOffsets.*{text}"):
        required_lookups(AtOffsets("startingOffsets", {FIRST: 5}), there)


def test_a_timestamp_after_the_last_record_is_an_error_with_the_required_option() -> None:
    lookups = required_lookups(AtTimestamp("startingTimestamp", 9), [FIRST])
    require_match(lookups, [])
    with pytest.raises(OptionError, match="tides-0 has no record at or after 9 ms; set starting"):
        require_match(lookups, [FIRST])


# --- ranges ---


def sizes(*numbers: int, **options: int | None) -> list[int]:
    ranges = [OffsetRange(TopicPartition("tides", at), 10, 10 + size) for at, size in enumerate(numbers)]
    cut = split_ranges(
        ranges,
        min_partitions=options.get("min"),
        max_records_per_partition=options.get("most"),
    )
    return [one.size for one in cut]


def test_each_nonempty_partition_is_one_range_without_limits() -> None:
    assert sizes(5, 0, 7) == [5, 7]


def test_large_partitions_are_split_and_small_ones_are_not() -> None:
    """SPARK-36576: small partitions do not reduce the number of parts of a large one."""
    assert sizes(100, min=4) == [25, 25, 25, 25]
    assert sizes(1, 1, 10_000, min=6) == [1, 1, 2500, 2500, 2500, 2500]
    assert sizes(5, 7, min=2) == [5, 7]


def test_a_range_has_at_most_the_maximum_of_records() -> None:
    assert sizes(10, 3, most=4) == [3, 3, 4, 3]
    assert sizes(10, 3, most=4, min=2) == [3, 3, 4, 3]
    assert sizes(4, most=4, min=2) == [2, 2]


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 500),
)
def test_split_ranges_are_contiguous(numbers: list[int], least: int | None, most: int | None) -> None:
    ranges = [OffsetRange(TopicPartition("t", at), 3, 3 + size) for at, size in enumerate(numbers)]
    cut = split_ranges(ranges, min_partitions=least, max_records_per_partition=most)
    assert all(one.size > 0 for one in cut)
    for whole in ranges:
        covered = [
            offset
            for one in cut
            if one.topic_partition == whole.topic_partition
            for offset in range(one.start_offset, one.end_offset)
        ]
        assert covered == list(range(whole.start_offset, whole.end_offset))
    assert most is None or all(one.size <= most for one in cut)


# --- limits ---


def test_each_partition_gets_its_share_of_the_limit_and_at_least_one_offset() -> None:
    start, end = {FIRST: 0, SECOND: 100}, {FIRST: 900, SECOND: 101}
    assert limit_end(100, start, end, {}) == {FIRST: 99, SECOND: 101}
    assert limit_end(10_000, start, end, {}) == end


def test_new_partitions_share_the_limit_from_their_start() -> None:
    assert limit_end(10, {FIRST: 0}, {FIRST: 100, SECOND: 150}, {SECOND: 50}) == {FIRST: 5, SECOND: 55}


def test_a_limit_without_new_records_is_empty() -> None:
    assert limit_end(5, {FIRST: 9}, {FIRST: 9}, {}) == {FIRST: 9}
    assert limit_end(5, {FIRST: 9}, {FIRST: 7}, {}) == {FIRST: 7}


@given(
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=8),
    st.integers(1, 10**6),
)
def test_a_limited_batch_advances_and_stays_near_the_limit(places: list[tuple[int, int]], most: int) -> None:
    start = {TopicPartition("t", at): begin for at, (begin, _) in enumerate(places)}
    end = {TopicPartition("t", at): begin + size for at, (begin, size) in enumerate(places)}
    cut = limit_end(most, start, end, {})
    taken = sum(cut[one] - start[one] for one in start)
    assert taken <= most + len(places)
    assert all(start[one] <= cut[one] <= end[one] for one in start)
    assert taken > 0 or start == end


def test_a_batch_waits_for_the_minimum_of_offsets_up_to_the_maximum_delay() -> None:
    def is_waiting(end: int, waited_ms: int) -> bool:
        return should_wait(10, {FIRST: 5}, {FIRST: end}, waited_ms=waited_ms, max_trigger_delay_ms=1000)

    assert is_waiting(14, 999)
    assert not is_waiting(15, 0)
    assert not is_waiting(14, 1000)


# --- data loss ---


def test_ranges_of_a_batch_start_at_the_end_of_the_previous_one() -> None:
    planned = plan_batch({FIRST: 5, SECOND: 7}, {FIRST: 9, SECOND: 7}, {})
    assert planned.ranges == [OffsetRange(FIRST, 5, 9)]
    assert not planned.losses


def test_new_partitions_are_read_from_offset_0() -> None:
    assert plan_batch({}, {FIRST: 9}, {FIRST: 0}).ranges == [OffsetRange(FIRST, 0, 9)]
    late = plan_batch({}, {FIRST: 9}, {FIRST: 4})
    assert late.ranges == [OffsetRange(FIRST, 4, 9)]
    assert late.losses == ["new partition tides-0 starts at offset 4 instead of 0"]


def test_deleted_partitions_and_decreased_ends_are_data_loss() -> None:
    planned = plan_batch({FIRST: 5, SECOND: 7}, {SECOND: 3}, {})
    assert not planned.ranges
    assert planned.losses == [
        "tides-0 no longer exists; it was read up to offset 5",
        "the end offset of tides-1 decreased from 7 to 3",
    ]
    (loss,) = plan_batch({FIRST: 5}, {FIRST: 3}, {}, is_offline=True).losses
    assert loss.startswith("the bucket has tides-0 up to offset 3, and it was read up to 5: through brokers")


@pytest.mark.parametrize(("log_start", "left"), [(0, 5), (5, 5), (8, 8), (12, 10)])
def test_a_log_start_beyond_the_start_offset_leaves_the_remaining_records(log_start: int, left: int) -> None:
    rest, loss = trim_to_log_start(OffsetRange(FIRST, 5, 10), log_start)
    assert rest.start_offset == left
    assert (loss is None) == (log_start <= 5)
    assert loss is None or f"from offset 5 to 10, but its log starts at {log_start}" in loss
