"""Spark's calls about a stream's offsets, in Spark's order."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.data_loss import DataLossError
from tidelog.spark_connector.planning.offset_specs import AtOffsets, AtTimestamp, Bound, OffsetSpec
from tidelog.spark_connector.planning.offsets_json import Offsets
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import read_source_options
from tidelog.spark_connector.planning.stream_progress import StreamProgress, start_may_move
from tidelog.spark_connector.reading.input_partitions import RangePartition
from tidelog.spark_connector.reading.stream_reader import TidelogStreamReader

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


def test_a_query_that_fails_in_its_first_batch_with_data_loses_no_record() -> None:
    """Batch 0 is the empty anchor, so "latest" is not queried again when the query restarts."""
    first_run = progress()
    first_run.begin({FIRST: 20})
    assert first_run.is_anchor({FIRST: 20})
    logged_end_of_batch_0 = {FIRST: 20}
    assert not first_run.is_anchor({FIRST: 20})
    assert end_of(first_run, {FIRST: 20}, {FIRST: 35}) == {FIRST: 35}
    # The query failed in batch 1; it restarts from the end of batch 0 and does not query its start.
    second_run = progress()
    assert not second_run.is_anchor(logged_end_of_batch_0)
    assert end_of(second_run, logged_end_of_batch_0, {FIRST: 40}) == {FIRST: 40}


def test_batch_0_repeated_from_a_later_start_is_empty() -> None:
    """The query failed before the anchor was committed, and "latest" has increased since."""
    second_run = progress()
    second_run.begin({FIRST: 35})
    assert second_run.batch_start({FIRST: 35}, {FIRST: 20}) == {FIRST: 20}
    assert second_run.batch_start({FIRST: 20}, {FIRST: 35}) == {FIRST: 20}
    assert progress().batch_start({FIRST: 35}, {FIRST: 20}) == {FIRST: 35}


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
def test_only_a_start_that_may_change_adds_an_empty_batch(starting: OffsetSpec, may_move: bool) -> None:
    assert start_may_move(starting, latest_without_match=False) is may_move


def test_a_timestamp_resolved_to_the_end_may_change() -> None:
    assert start_may_move(AtTimestamp("startingTimestamp", 5), latest_without_match=True)


def test_available_now_reads_up_to_the_fixed_ends_and_then_returns_the_start() -> None:
    stream = progress(startingOffsets="earliest", maxOffsetsPerTrigger="10")
    stream.pin({FIRST: 25})
    start: Offsets = {FIRST: 0}
    batch_ends = []
    while (end := end_of(stream, start, stream.pinned or {}, max_offsets=10)) != start:
        batch_ends.append(end[FIRST])
        start = end
    assert batch_ends == [10, 20, 25]


def test_available_now_never_ends_before_its_start() -> None:
    """The ends were pinned before "latest" was queried as the start."""
    stream = progress()
    stream.pin({FIRST: 25})
    stream.begin({FIRST: 30})
    assert end_of(stream, {FIRST: 30}, {FIRST: 25}) == {FIRST: 30}


def test_available_now_queries_a_decreased_end_again_and_reports_it() -> None:
    """The topic was re-created or truncated: returning the start would mean that there are no new records."""
    stream = progress()
    stream.pin({FIRST: 25, SECOND: 4})
    start = {FIRST: 30, SECOND: 4}
    assert stream.pinned_for(start) is None
    assert stream.replace_pinned(start, {FIRST: 33, SECOND: 9}) == {FIRST: 33, SECOND: 4}
    assert stream.pinned_for(start) == {FIRST: 33, SECOND: 4}
    stream.pin({FIRST: 25})
    assert stream.replace_pinned(start, {FIRST: 26}) == {FIRST: 26}
    assert end_of(stream, start, {FIRST: 26}) == {FIRST: 26}


class Brokers:
    """Brokers with one partition that ends at 25."""

    def partitions(
        self, *, all_must_exist: bool, earlier_partitions: Collection[TopicPartition] = ()
    ) -> set[TopicPartition]:
        return {FIRST}

    def existing(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        return {FIRST}

    def latest(self, partitions: Collection[TopicPartition], earlier_offsets: Offsets) -> Offsets:
        return dict.fromkeys(partitions, 25)


@pytest.mark.parametrize("is_pinned", [True, False])
def test_an_end_that_is_data_loss_is_not_checkpointed(
    monkeypatch: pytest.MonkeyPatch, is_pinned: bool
) -> None:
    """Otherwise the query would fail there at each restart, even when all brokers are available again."""
    monkeypatch.setattr("tidelog.spark_connector.reading.stream_reader.offset_source", lambda _: Brokers())
    values = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "tides"}
    for fails in ("true", "false"):
        read = read_source_options({**values, "failOnDataLoss": fails}, is_streaming=True)
        reader = TidelogStreamReader(read)
        if is_pinned:
            reader.prepareForTriggerAvailableNow()
        for start, message in (
            ({"tides": {"0": 30}}, "the end offset of tides-0 decreased from 30 to 25"),
            ({"tides": {"0": 25, "1": 7}}, "tides-1 no longer exists; it was read up to offset 7"),
        ):
            if fails == "true":
                with pytest.raises(DataLossError, match=message):
                    reader.latestOffset(start, ReadAllAvailable())
            else:
                assert reader.latestOffset(start, ReadAllAvailable()) == {"tides": {"0": 25}}


@pytest.mark.parametrize("fails", [True, False])
def test_a_repeated_batch_skips_or_reports_a_deleted_topic(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    """Its end is in the checkpoint: tasks would search for the topic in vain at each start of the query."""
    monkeypatch.setattr("tidelog.spark_connector.reading.stream_reader.offset_source", lambda _: Brokers())
    values = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "tides"}
    values["failOnDataLoss"] = str(fails).lower()
    reader = TidelogStreamReader(read_source_options(values, is_streaming=True))
    start, end = {"tides": {"0": 3, "1": 3, "2": 5}}, {"tides": {"0": 20, "1": 7, "2": 5}}
    loss = "tides-1 no longer exists; it should be read from offset 3 to 7"
    if fails:
        with pytest.raises(DataLossError, match=loss):
            reader.partitions(start, end)
        return
    (task,) = reader.partitions(start, end)
    assert isinstance(task, RangePartition) and task.offset_range == OffsetRange(FIRST, 3, 20)
    assert [record.getMessage() for record in caplog.records] == [f"{loss}: skipped"]


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_batch_0_repeated_after_a_partition_was_added_is_no_data_loss(
    monkeypatch: pytest.MonkeyPatch, starting: str
) -> None:
    """Its end is in the checkpoint and lacks the partition; the start is queried again and has it."""

    class BrokersWithNewPartition(Brokers):
        def partitions(
            self, *, all_must_exist: bool, earlier_partitions: Collection[TopicPartition] = ()
        ) -> set[TopicPartition]:
            return {FIRST, SECOND}

        def resolve(self, spec: OffsetSpec, partitions: set[TopicPartition], *, is_start: bool) -> Offsets:
            return dict.fromkeys(partitions, 3 if spec is Bound.EARLIEST else 25)

    monkeypatch.setattr(
        "tidelog.spark_connector.reading.stream_reader.offset_source", lambda _: BrokersWithNewPartition()
    )
    values = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "tides", "startingOffsets": starting}
    reader = TidelogStreamReader(read_source_options(values, is_streaming=True))
    start = reader.initialOffset()
    tasks = reader.partitions(start, {"tides": {"0": 20}})
    expected = [OffsetRange(FIRST, 3, 20)] if starting == "earliest" else []
    assert [task.offset_range for task in tasks if isinstance(task, RangePartition)] == expected


@pytest.mark.parametrize("is_pinned", [True, False])
def test_an_offline_stream_ahead_of_the_tier_repeats_no_record(is_pinned: bool) -> None:
    """Earlier batches were read through brokers: records not yet in the tier are read when they are there."""
    store = {"tier": "offline", "rsm.config.storage.backend.class": "filesystem"}
    store |= {"rsm.config.storage.root": "."}
    for fails, end in (("false", 30), ("true", 25)):
        stream = progress(**store, failOnDataLoss=fails)
        if is_pinned:
            stream.pin({FIRST: 25})
        assert end_of(stream, {FIRST: 30}, {FIRST: 25}) == {FIRST: end}


def test_available_now_does_not_wait_for_the_minimum_of_records() -> None:
    stream = progress(minOffsetsPerTrigger="100", maxOffsetsPerTrigger="200")
    stream.pin({FIRST: 25})
    assert end_of(stream, {FIRST: 0}, {FIRST: 25}, min_offsets=100) == {FIRST: 25}


def test_a_batch_waits_for_the_minimum_and_is_limited_by_the_maximum() -> None:
    stream = progress(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="20", maxTriggerDelay="1s")
    assert end_of(stream, {FIRST: 0}, {FIRST: 3}, min_offsets=10, now_ms=0) == {FIRST: 3}
    assert end_of(stream, {FIRST: 3}, {FIRST: 5}, min_offsets=10, now_ms=500) == {FIRST: 3}
    assert end_of(stream, {FIRST: 3}, {FIRST: 5}, min_offsets=10, now_ms=1000) == {FIRST: 5}
    assert end_of(stream, {FIRST: 5}, {FIRST: 90}, min_offsets=10, now_ms=1001) == {FIRST: 25}


def test_a_batch_without_limits_reads_to_the_end() -> None:
    assert end_of(progress(maxOffsetsPerTrigger="5"), {FIRST: 0}, {FIRST: 90}) == {FIRST: 90}
