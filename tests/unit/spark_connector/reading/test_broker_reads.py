"""Queries of the driver and reads of executors, without Spark, against a real broker in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from tests.support.spark.topics import START_MS, create_topic, produce, rows_by_offset, varied_records
from tidelog.clients.admin.admin import Admin
from tidelog.clients.consumer.partition_reader import FetchedRange, PartitionReader
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.data_loss import DataLossError
from tidelog.spark_connector.planning.offset_specs import AtTimestamp, Bound
from tidelog.spark_connector.planning.offsets_json import Offsets
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import SourceOptions, read_source_options
from tidelog.spark_connector.reading.cluster_offsets import ClusterOffsets
from tidelog.spark_connector.reading.input_partitions import RangePartition, input_partitions, read_partition
from tidelog.spark_connector.reading.offset_source import offset_source
from tidelog.spark_connector.reading.range_reader import ReadSettings, read_range
from tidelog.testing.embedded import EmbeddedCluster

RECORDS = varied_records(300, 200)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        yield running


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    name = f"tides-{uuid4().hex[:8]}"
    create_topic(cluster.bootstrap_servers, name, 2)
    produce(cluster.bootstrap_servers, name, RECORDS, linger_ms=1)
    return name


def options(cluster: EmbeddedCluster, topic: str, **more: str) -> SourceOptions:
    values = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "includeHeaders": "true",
        "fetchOffset.retryIntervalMs": "10",
        **({} if {"subscribePattern", "assign"} & more.keys() else {"subscribe": topic}),
        **more,
    }
    return read_source_options(values, is_streaming=True)


def delete_before(cluster: EmbeddedCluster, one: TopicPartition, offset: int) -> None:
    async def delete() -> None:
        async with Admin(cluster.bootstrap_servers) as admin:
            outcome = (await admin.delete_records({one: offset}))[one]
            assert not isinstance(outcome, KafkaError), outcome

    asyncio.run(delete())


def read(settings: SourceOptions, one: TopicPartition, start: int, end: int) -> list[pa.RecordBatch]:
    return list(read_range(ReadSettings.of(settings), OffsetRange(one, start, end)))


def test_a_range_is_read_exactly_for_any_fetch_size(cluster: EmbeddedCluster, topic: str) -> None:
    small = {"kafka.max.partition.fetch.bytes": "2000"}
    for more in ({}, small):
        batches = read(options(cluster, topic, **more), TopicPartition(topic, 0), 17, 250)
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert rows_by_offset(rows) == [one.row() for one in RECORDS[17:250]]


def test_a_batch_that_decompresses_beyond_the_option_is_refused(cluster: EmbeddedCluster, topic: str) -> None:
    produce(cluster.bootstrap_servers, topic, RECORDS, partition=1, compression_type="zstd")
    one = TopicPartition(topic, 1)
    with pytest.raises(DecodeError, match=f"{one}: .*1000"):
        read(options(cluster, topic, **{"kafka.max.decompressed.bytes": "1000"}), one, 0, 300)


def test_a_reader_that_stops_early_leaves_no_thread(cluster: EmbeddedCluster, topic: str) -> None:
    settings = options(cluster, topic, **{"kafka.max.partition.fetch.bytes": "2000"})
    rows = read_range(ReadSettings.of(settings), OffsetRange(TopicPartition(topic, 0), 0, 300))
    assert next(rows).num_rows
    rows.close()  # type: ignore[attr-defined]


def test_a_log_start_beyond_the_range_is_an_error_or_skipped(cluster: EmbeddedCluster, topic: str) -> None:
    one = TopicPartition(topic, 0)
    delete_before(cluster, one, 100)
    with pytest.raises(
        DataLossError, match=f"{one} should be read from offset 5 to 120, but its log starts at 100"
    ):
        read(options(cluster, topic), one, 5, 120)
    lenient = options(cluster, topic, failOnDataLoss="false")
    assert sum(batch.num_rows for batch in read(lenient, one, 5, 120)) == 20
    assert not read(lenient, one, 5, 60)


def test_a_log_truncated_within_the_range_is_an_error_or_skipped(
    cluster: EmbeddedCluster, topic: str
) -> None:
    """The range is in a checkpoint; an unclean leader, or another topic of the name, has fewer records."""
    one = TopicPartition(topic, 0)
    short_timeouts = {"kafkaConsumer.pollTimeoutMs": "300", "kafka.fetch.max.wait.ms": "50"}
    for start in (290, 310):
        lost = f"{one} should be read from offset {max(start, 300)} to 350, but its log ends at 300"
        with pytest.raises(DataLossError, match=lost):
            read(options(cluster, topic, **short_timeouts), one, start, 350)
        lenient = options(cluster, topic, failOnDataLoss="false", **short_timeouts)
        assert sum(batch.num_rows for batch in read(lenient, one, start, 350)) == max(300 - start, 0)


def test_records_missing_in_a_response_but_present_in_the_log_are_never_skipped(
    cluster: EmbeddedCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another leader may have had another log start; the next attempt decides."""
    one = TopicPartition(topic, 0)

    async def refuse(reader: PartitionReader) -> AsyncIterator[FetchedRange]:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, "of an earlier leader")
        yield

    monkeypatch.setattr(PartitionReader, "fetched_ranges", refuse)
    with pytest.raises(KafkaError, match="of an earlier leader"):
        read(options(cluster, topic, failOnDataLoss="false"), one, 5, 120)


def test_partitions_and_offsets_equal_the_clusters(cluster: EmbeddedCluster, topic: str) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with ClusterOffsets(options(cluster, topic)) as reader:
        partitions = reader.partitions(all_must_exist=True)
        assert partitions == {first, second}
        assert reader.latest(partitions, {}) == {first: 300, second: 0}
        assert reader.resolve(Bound.EARLIEST, partitions, is_start=True) == {first: 0, second: 0}
        at = AtTimestamp("startingTimestamp", START_MS + 995)
        assert reader.resolve(at, [first], is_start=True) == {first: 100}
        assert reader.resolve(at, partitions, is_start=False) == {first: 100, second: 0}
        with pytest.raises(OptionError, match=f"{second} has no record at or after"):
            reader.resolve(at, partitions, is_start=True)


def test_a_record_appended_during_a_timestamp_search_is_not_omitted(
    cluster: EmbeddedCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No record was recent enough: the start is the end, but not an offset after a new record."""
    second = TopicPartition(topic, 1)
    settings = options(cluster, topic, startingOffsetsByTimestampStrategy="latest")
    with ClusterOffsets(settings) as reader:
        list_offsets = reader._list_offsets

        def list_and_append(specs: Mapping[TopicPartition, int], **more: bool) -> Offsets:
            offsets = list_offsets(specs, **more)
            if START_MS in specs.values():
                produce(cluster.bootstrap_servers, topic, RECORDS[:1], partition=1)
            return offsets

        monkeypatch.setattr(reader, "_list_offsets", list_and_append)
        at = AtTimestamp("startingTimestamp", START_MS)
        assert reader.resolve(at, [second], is_start=True) == {second: 0}


def test_topics_match_a_pattern_and_missing_ones_are_reported(cluster: EmbeddedCluster, topic: str) -> None:
    with ClusterOffsets(options(cluster, topic, subscribePattern=f"{topic[:-1]}.")) as reader:
        assert len(reader.partitions(all_must_exist=True)) == 2
    with ClusterOffsets(options(cluster, "nowhere")) as reader:
        assert not reader.partitions(all_must_exist=False)
        with pytest.raises(OptionError, match="do not exist: nowhere"):
            reader.partitions(all_must_exist=True)
    assigned = f'{{"{topic}":[1,9]}}'
    with (
        ClusterOffsets(options(cluster, topic, assign=assigned)) as reader,
        pytest.raises(OptionError, match=f"do not exist: {topic}-9"),
    ):
        reader.partitions(all_must_exist=True)


def test_deleted_partitions_are_distinguished_from_those_that_are_no_longer_read(
    cluster: EmbeddedCluster, topic: str
) -> None:
    there = {TopicPartition(topic, 0), TopicPartition(topic, 1)}
    with ClusterOffsets(options(cluster, "others")) as reader:
        assert reader.existing({*there, TopicPartition(topic, 2), TopicPartition("nowhere", 0)}) == there
        assert reader.existing(()) == frozenset()


def test_a_decreased_end_is_queried_again(cluster: EmbeddedCluster, topic: str) -> None:
    one = TopicPartition(topic, 0)
    with ClusterOffsets(options(cluster, topic)) as reader:
        assert reader.latest([one], {one: 400}) == {one: 300}


def test_a_missing_partition_is_queried_again(
    cluster: EmbeddedCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that has just started does not know the topic yet; only expected partitions are awaited."""
    one, other = TopicPartition(topic, 0), TopicPartition("another", 0)
    counts_to_return: list[dict[str, int]] = []
    with ClusterOffsets(options(cluster, topic)) as reader:

        async def counts(_: Admin, __: object) -> dict[str, int]:
            return counts_to_return.pop(0)

        monkeypatch.setattr(reader, "_partition_counts", counts)
        counts_to_return[:] = [{}, {}, {topic: 2}]
        assert one in reader.partitions(all_must_exist=False, earlier_partitions={one})
        counts_to_return[:] = [{}]
        assert not reader.partitions(all_must_exist=False, earlier_partitions={other})
        counts_to_return[:] = [{}] * 4
        assert not reader.partitions(all_must_exist=False, earlier_partitions={one})
        assert not counts_to_return


def test_brokers_serve_everything_without_remote_storage(
    cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    store = {"rsm.config.storage.backend.class": "filesystem", "rsm.config.storage.root": str(tmp_path)}
    settings = options(cluster, topic, tier="direct", **store)
    with offset_source(settings) as source:
        tasks = input_partitions(settings, source, [OffsetRange(TopicPartition(topic, 0), 7, 300)])
    (task,) = tasks
    assert isinstance(task, RangePartition)
    rows = [row for batch in read_partition(settings, task) for row in batch.to_pylist()]
    assert rows_by_offset(rows) == [one.row() for one in RECORDS[7:]]
