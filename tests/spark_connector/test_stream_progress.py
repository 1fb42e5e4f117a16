"""Spark's calls about a stream's offsets, in the order in which it makes them."""

from __future__ import annotations

import pytest

from protocol.ids import TopicPartition
from spark_connector.planning.offset_specs import AtOffsets, AtTimestamp, Bound, OffsetSpec
from spark_connector.planning.offsets_json import Offsets
from spark_connector.planning.source_options import read_source_options
from spark_connector.stream_progress import StreamProgress, start_may_move

FIRST, SECOND = TopicPartition("tides", 0), TopicPartition("tides", 1)


def progress(**options: str) -> StreamProgress:
    values = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "tides", **options}
    return StreamProgress(read_source_options(values, is_streaming=True))


def end_of(
    stream: StreamProgress,
    start: Offsets,
    ends: Offsets,
    *,
    max_offsets: int | None = None,
    min_offsets: int | None = None,
    now_ms: int = 0,
) -> Offsets:
    return stream.next_end(start, ends, {}, max_offsets=max_offsets, min_offsets=min_offsets, now_ms=now_ms)


def test_a_query_that_fails_in_its_first_data_batch_loses_nothing() -> None:
    """Batch 0 is the empty anchor, so "latest" is not asked again when the query comes back."""
    first_run = progress()
    first_run.begin({FIRST: 20})
    assert first_run.is_anchor({FIRST: 20})
    logged_end_of_batch_0 = {FIRST: 20}
    assert not first_run.is_anchor({FIRST: 20})
    assert end_of(first_run, {FIRST: 20}, {FIRST: 35}) == {FIRST: 35}
    # It failed in batch 1; what comes back goes on from batch 0's end and is not asked where to begin.
    second_run = progress()
    assert not second_run.is_anchor(logged_end_of_batch_0)
    assert end_of(second_run, logged_end_of_batch_0, {FIRST: 40}) == {FIRST: 40}


def test_batch_0_that_is_done_again_from_a_later_start_is_empty() -> None:
    """The query failed before the anchor was committed, and "latest" has moved on since."""
    second_run = progress()
    second_run.begin({FIRST: 35})
    assert second_run.is_overtaken_start({FIRST: 35}, {FIRST: 20})
    assert not second_run.is_overtaken_start({FIRST: 20}, {FIRST: 35})
    assert not progress().is_overtaken_start({FIRST: 35}, {FIRST: 20})


@pytest.mark.parametrize(
    ("starting", "may_move"),
    [
        (Bound.EARLIEST, False),
        (Bound.LATEST, True),
        (AtOffsets("startingOffsets", {FIRST: 5, SECOND: -2}), False),
        (AtOffsets("startingOffsets", {FIRST: 5, SECOND: -1}), True),
        (AtTimestamp("startingTimestamp", 5), False),
    ],
)
def test_only_a_start_that_may_move_costs_an_empty_batch(starting: OffsetSpec, may_move: bool) -> None:
    assert start_may_move(starting, latest_without_match=False) is may_move


def test_a_timestamp_that_falls_back_on_the_end_may_move() -> None:
    assert start_may_move(AtTimestamp("startingTimestamp", 5), latest_without_match=True)


def test_available_now_reads_up_to_the_pinned_ends_and_then_answers_with_the_start() -> None:
    stream = progress(startingOffsets="earliest", maxOffsetsPerTrigger="10")
    stream.pin({FIRST: 25})
    start: Offsets = {FIRST: 0}
    seen = []
    while (end := end_of(stream, start, stream.pinned or {}, max_offsets=10)) != start:
        seen.append(end[FIRST])
        start = end
    assert seen == [10, 20, 25]


def test_available_now_never_goes_back_behind_what_was_read() -> None:
    stream = progress()
    stream.pin({FIRST: 25})
    assert end_of(stream, {FIRST: 30}, {FIRST: 25}) == {FIRST: 30}


def test_available_now_does_not_wait_for_enough_records() -> None:
    stream = progress(minOffsetsPerTrigger="100", maxOffsetsPerTrigger="200")
    stream.pin({FIRST: 25})
    assert end_of(stream, {FIRST: 0}, {FIRST: 25}, min_offsets=100) == {FIRST: 25}


def test_a_batch_waits_for_the_least_and_takes_no_more_than_the_most() -> None:
    stream = progress(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="20", maxTriggerDelay="1s")
    assert end_of(stream, {FIRST: 0}, {FIRST: 3}, min_offsets=10, now_ms=0) == {FIRST: 3}
    assert end_of(stream, {FIRST: 3}, {FIRST: 5}, min_offsets=10, now_ms=500) == {FIRST: 3}
    assert end_of(stream, {FIRST: 3}, {FIRST: 5}, min_offsets=10, now_ms=1000) == {FIRST: 5}
    assert end_of(stream, {FIRST: 5}, {FIRST: 90}, min_offsets=10, now_ms=1001) == {FIRST: 25}


def test_without_limits_a_batch_takes_everything() -> None:
    assert end_of(progress(maxOffsetsPerTrigger="5"), {FIRST: 0}, {FIRST: 90}) == {FIRST: 90}
