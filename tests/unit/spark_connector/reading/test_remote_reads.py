"""Segments read directly from the object store, and the rest from brokers: the same as brokers alone.

Without Spark: the driver's plan and the reading of its tasks, against a real tiered broker in this process.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.support.foreign_clients.partition_writer import PartitionWriter
from tests.support.nodes.fetched_offsets import fetched_offsets
from tests.support.spark.topics import numbered_records, produce, varied_records
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.base.bounded_pool import PoolFull
from tidelog.broker.tier.metered_reader import MeteredReader
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import IndexType, ReadableStream
from tidelog.remote.reading.requests import RemoteRead, RemoteReadRequest, TimestampSearch
from tidelog.spark_connector.planning.data_loss import DataLossError
from tidelog.spark_connector.planning.option_values import OptionError
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import SourceOptions, read_source_options
from tidelog.spark_connector.reading import tier_storage
from tidelog.spark_connector.reading.input_partitions import (
    RangePartition,
    SlicePartition,
    TaskPlanner,
    input_partitions,
    read_partition,
)
from tidelog.spark_connector.reading.offset_source import OffsetSource, offset_source
from tidelog.storage.log.lookup import RecordPlace
from tidelog.testing.embedded import EmbeddedCluster

SMALL = {"internal.segment.bytes": "100000", "index.interval.bytes": "1000"}
Row = tuple[int, bytes | None, bytes | None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tiered=True) as running:
        yield running


@pytest.fixture
def topics(cluster: EmbeddedCluster) -> TieredTopics:
    return TieredTopics(cluster)


def options(cluster: EmbeddedCluster, topic: str, tier: str, **more: str) -> SourceOptions:
    values = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "subscribe": topic,
        "tier": tier,
        "rsm.config.storage.backend.class": "filesystem",
        "rsm.config.storage.root": str(cluster.tier_dir),
        "fetchOffset.retryIntervalMs": "10",
        **more,
    }
    return read_source_options(values, is_streaming=False)


def whole_ranges(settings: SourceOptions, source: OffsetSource) -> list[OffsetRange]:
    partitions = source.partitions(all_must_exist=True)
    starts = source.resolve(settings.starting, partitions, is_start=True)
    ends = source.resolve(settings.ending, partitions, is_start=False)
    return [OffsetRange(one, starts[one], ends[one]) for one in sorted(partitions)]


def tasks_of(settings: SourceOptions) -> list[Any]:
    """Return the tasks of a batch as executors receive them."""
    with offset_source(settings) as source:
        tasks = input_partitions(settings, source, whole_ranges(settings, source))
    restored: list[Any] = pickle.loads(pickle.dumps(tasks))
    return restored


def rows_of(settings: SourceOptions, tasks: list[Any] | None = None) -> list[Row]:
    return [
        (row["offset"], row["key"], row["value"])
        for task in (tasks_of(settings) if tasks is None else tasks)
        for batch in read_partition(settings, task)
        for row in batch.to_pylist()
    ]


def border_of(tasks: list[Any]) -> int:
    """Return the offset from which brokers are read."""
    assert all(isinstance(task, SlicePartition | RangePartition) for task in tasks)
    return max(task.task.end_offset for task in tasks if isinstance(task, SlicePartition))


def fill_with_transactions(cluster: EmbeddedCluster, topic: str, batches: int = 500) -> None:
    """Write plain records between short and long transactions of several producers; half are aborted."""
    writer = PartitionWriter(cluster, topic)
    randomness = random.Random(7)
    under_way: set[int] = set()
    for number in range(batches):
        if under_way and randomness.random() < 0.1:
            producer = randomness.choice(sorted(under_way))
            under_way.discard(producer)
            writer.end_transaction(producer, committed=randomness.random() < 0.5)
            continue
        producer = randomness.choice([None, 1000, 1001, 1002, 1003])
        values = [b"%06d %d " % (number, each) + randomness.randbytes(400) for each in range(3)]
        writer.records(*values, producer_id=producer)
        under_way |= set() if producer is None else {producer}
    for producer in sorted(under_way):
        writer.end_transaction(producer, committed=producer % 2 == 0)


@pytest.fixture(scope="module")
def transactions(cluster: EmbeddedCluster) -> str:
    """Create a topic of transactions, most of it remote, with an aborted transaction across the border."""
    tiered = TieredTopics(cluster)
    tiered.create("transactions", SMALL)
    fill_with_transactions(cluster, "transactions")
    writer = PartitionWriter(cluster, "transactions")
    writer.records(b"aborted across the border", producer_id=2000)
    for number in range(260):
        writer.records(b"%d" % number + bytes(450))
    writer.end_transaction(2000, committed=False)
    writer.records(b"the last")
    tiered.wait_until_tiered("transactions")
    return "transactions"


def test_the_driver_reads_only_new_metadata_and_slices_are_small_when_serialized(
    cluster: EmbeddedCluster, topics: TieredTopics
) -> None:
    topic = f"tides-{uuid4().hex[:6]}"
    topics.create(topic, SMALL)
    sent = varied_records(3000, 200)
    produce(cluster.bootstrap_servers, topic, sent)
    topics.wait_until_tiered(topic)
    settings = options(cluster, topic, "direct", maxBytesPerPartition="40000")
    tasks = tasks_of(settings)
    slices = [task for task in tasks if isinstance(task, SlicePartition)]
    assert len(slices) > len(topics.objects(f"{topic}-")) / 3
    assert max(len(pickle.dumps(task)) for task in slices) < 2500
    assert [value for _, _, value in rows_of(settings, tasks)] == [one.value for one in sent]
    assert rows_of(settings, tasks) == rows_of(options(cluster, topic, "broker"))
    few = options(cluster, topic, "direct", minPartitions="7", maxRecordsPerPartition="900")
    assert 7 <= len(tasks_of(few)) < 14
    assert rows_of(few) == rows_of(settings)
    one = options(cluster, topic, "direct", startingOffsets=f'{{"{topic}":{{"0":1234}}}}')
    assert [row[0] for row in rows_of(one)] == list(range(1234, 3000))


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions_across_the_local_log_start_are_read_as_by_brokers(
    cluster: EmbeddedCluster, transactions: str, isolation: str
) -> None:
    more = {"kafka.isolation.level": isolation}
    by_brokers = rows_of(options(cluster, transactions, "broker", **more))
    assert (b"aborted across the border" in {row[2] for row in by_brokers}) is (isolation != "read_committed")
    for max_bytes in ("15000", "10000000"):
        settings = options(cluster, transactions, "direct", maxBytesPerPartition=max_bytes, **more)
        assert rows_of(settings) == by_brokers
    offline = options(cluster, transactions, "offline", **more)
    stable = next(
        row[0]
        for row in rows_of(options(cluster, transactions, "broker"))
        if row[2] == b"aborted across the border"
    )
    (border,) = (task.task.end_offset for task in tasks_of(offline))
    assert (border <= stable) is (isolation == "read_committed")
    assert rows_of(offline) == [row for row in by_brokers if row[0] < border]
    behind = f'{{"{transactions}":{{"0":{border + 1}}}}}'
    with pytest.raises(OptionError, match=f"endingOffsets: {transactions}-0 should be .* {border + 1}"):
        tasks_of(options(cluster, transactions, "offline", endingOffsets=behind, **more))


def test_transactions_across_the_local_log_start_are_reported_before_they_are_stable(
    cluster: EmbeddedCluster, topics: TieredTopics
) -> None:
    """One transaction ends after the border, where another is open: no record beyond the border is stable."""
    topic = f"open-{uuid4().hex[:6]}"
    topics.create(topic, SMALL)
    writer = PartitionWriter(cluster, topic)
    writer.records(b"aborted 0", producer_id=1)
    writer.records(b"committed 1", producer_id=2)
    border = writer.records(b"open", producer_id=3)
    writer.end_transaction(1, committed=False)
    writer.end_transaction(2, committed=True)
    name = TopicPartition(topic, 0)
    settings = options(cluster, topic, "direct", **{"kafka.isolation.level": "read_committed"})
    with offset_source(settings) as source:
        assert source.latest([name], {}) == {name: border}
        assert [(one.producer_id, one.first_offset) for one in source.aborted_across(name, border)] == [
            (1, 0)
        ]
        assert source.aborted_across(name, topics.border(topic).log_end) == []


def test_brokers_are_not_read_below_the_local_log_start(cluster: EmbeddedCluster, transactions: str) -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        settings = options(cluster, transactions, "direct", **{"kafka.isolation.level": isolation})
        with fetched_offsets() as fetched:
            tasks = tasks_of(settings)
            rows_of(settings, tasks)
        of_topic = [offset for topic, _, offset in fetched if topic == transactions]
        assert tasks[0].task.start_offset == 0
        assert min(of_topic) == border_of(tasks)
        (by_brokers,) = (task.offset_range for task in tasks if isinstance(task, RangePartition))
        assert by_brokers.start_offset == border_of(tasks)
    with fetched_offsets() as fetched:
        rows_of(options(cluster, transactions, "offline"))
    # The brokers run in this process and read the tier's metadata.
    assert not [offset for topic, _, offset in fetched if topic == transactions]


def test_a_timestamp_resolves_to_the_same_offset_without_brokers(
    cluster: EmbeddedCluster, topics: TieredTopics
) -> None:
    topic = f"times-{uuid4().hex[:6]}"
    topics.create(topic, SMALL)
    produce(cluster.bootstrap_servers, topic, numbered_records(2500, size=200))
    border = topics.wait_until_tiered(topic).local_start
    for timestamp in (0, 1000, 1777, 1000 + border - 1):
        times = {"startingTimestamp": str(timestamp), "endingTimestamp": "3450"}
        by_brokers = rows_of(options(cluster, topic, "broker", **times))
        assert rows_of(options(cluster, topic, "direct", **times)) == by_brokers
        assert rows_of(options(cluster, topic, "offline", **times)) == [
            row for row in by_brokers if row[0] < border
        ]
    beyond = options(cluster, topic, "offline", startingTimestamp=str(1000 + border))
    with pytest.raises(OptionError, match=r"option startingTimestamp: .* has no record at or after"):
        tasks_of(beyond)
    strategy = "startingOffsetsByTimestampStrategy"
    assert not rows_of(options(cluster, topic, "offline", startingTimestamp="99999", **{strategy: "latest"}))


def test_offline_a_timestamp_after_the_last_stable_offset_finds_nothing(
    cluster: EmbeddedCluster, transactions: str
) -> None:
    """A range that ended there would include records of a transaction that is open at the tier's end."""
    name = TopicPartition(transactions, 0)
    committed = {"kafka.isolation.level": "read_committed"}
    with offset_source(options(cluster, transactions, "offline")) as source:
        source.partitions(all_must_exist=True)
        (end,) = source.latest([name], {}).values()
    last = tasks_of(
        options(cluster, transactions, "offline", startingOffsets=_starting_offset(transactions, end - 1))
    )
    (moment,) = (
        row["timestamp"].timestamp()
        for task in last
        for batch in read_partition(options(cluster, transactions, "offline"), task)
        for row in batch.to_pylist()
    )
    now = str(round(moment * 1000))
    settings = options(cluster, transactions, "offline", endingTimestamp=now, **committed)
    with offset_source(settings) as source:
        (range_,) = whole_ranges(settings, source)
        assert range_.end_offset == source.latest([name], {})[name] < end
    with pytest.raises(OptionError, match=r"option startingTimestamp: .* has no record at or after"):
        tasks_of(options(cluster, transactions, "offline", startingTimestamp=now, **committed))


def _starting_offset(topic: str, offset: int) -> str:
    return f'{{"{topic}":{{"0":{offset}}}}}'


class TieredTopicFixture:
    """A planned topic in the tier, some segments of which are deleted before they are read."""

    def __init__(self, cluster: EmbeddedCluster, topics: TieredTopics, **more: str) -> None:
        self.cluster, self.topics = cluster, topics
        self.topic = f"gone-{uuid4().hex[:6]}"
        topics.create(self.topic, {**SMALL, **more})
        produce(cluster.bootstrap_servers, self.topic, numbered_records(2000, size=200))

    def options(self, tier: str = "direct", **more: str) -> SourceOptions:
        return options(self.cluster, self.topic, tier, **{"kafkaConsumer.pollTimeoutMs": "3000", **more})

    def objects(self, suffix: str) -> list[Path]:
        return [path for path in self.topics.objects(f"{self.topic}-") if path.suffix == suffix]

    def first_offset(self) -> int:
        """Return the first offset of the remaining segments."""
        return int(self.objects(".log")[0].stem[:20])

    def clear_cache(self) -> None:
        """Clear the cache of manifests: executors are other processes, which have read none."""
        tier_storage._open.cache_clear()


def test_records_deleted_after_planning_are_data_loss_by_the_log_start(
    cluster: EmbeddedCluster, topics: TieredTopics
) -> None:
    fixture = TieredTopicFixture(cluster, topics)
    topics.wait_until_tiered(fixture.topic)
    strict, lenient = fixture.options(), fixture.options(failOnDataLoss="false")
    tasks = tasks_of(strict)
    topics.alter(fixture.topic, {"retention.bytes": "150000"})
    wait_until(lambda: 0 < topics.border(fixture.topic).log_start <= fixture.first_offset())
    fixture.clear_cache()
    with pytest.raises(
        DataLossError, match=f"{fixture.topic}-0 should be read from offset 0 .* log starts at"
    ):
        rows_of(strict, tasks)
    start = topics.border(fixture.topic).log_start
    assert [row[0] for row in rows_of(lenient, tasks)] == list(range(start, 2000))
    with pytest.raises(DataLossError, match="log starts at"):
        tasks_of(fixture.options(startingOffsets=f'{{"{fixture.topic}":{{"0":0}}}}'))


def test_a_temporary_remote_storage_error_of_a_broker_does_not_fail_a_task(
    cluster: EmbeddedCluster, topics: TieredTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full queue of reads is a temporary error, too: many tasks that read remote data fill it."""
    fixture = TieredTopicFixture(cluster, topics)
    topics.wait_until_tiered(fixture.topic)
    failures = [RuntimeError("503 Slow Down"), PoolFull("100 reads wait"), RuntimeError("503 Slow Down")]
    read = MeteredReader.read

    async def fail_first_read(reader: MeteredReader, request: RemoteReadRequest) -> RemoteRead:
        if failures:
            raise failures.pop()
        return await read(reader, request)

    monkeypatch.setattr(MeteredReader, "read", fail_first_read)
    assert [row[0] for row in rows_of(options(cluster, fixture.topic, "broker"))] == list(range(2000))
    assert not failures


def test_a_temporary_remote_storage_error_of_a_broker_does_not_fail_a_timestamp_search(
    cluster: EmbeddedCluster, topics: TieredTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = TieredTopicFixture(cluster, topics)
    topics.wait_until_tiered(fixture.topic)
    failures = [RuntimeError("503 Slow Down"), PoolFull("100 reads wait")]
    look = MeteredReader.offset_for_timestamp

    async def fail_first_read(reader: MeteredReader, search: TimestampSearch) -> RecordPlace | None:
        if failures:
            raise failures.pop()
        return await look(reader, search)

    monkeypatch.setattr(MeteredReader, "offset_for_timestamp", fail_first_read)
    (task,) = tasks_of(options(cluster, fixture.topic, "broker", startingTimestamp="1003"))
    assert task.offset_range.start_offset == 3
    assert not failures


def test_a_deleted_segment_is_read_from_brokers_or_reported(
    cluster: EmbeddedCluster, topics: TieredTopics
) -> None:
    """Its metadata still lists it: brokers may have the records on their disks, or not."""
    local_fixture = TieredTopicFixture(cluster, topics, **{"local.retention.bytes": "-1"})
    wait_until(lambda: len(local_fixture.objects(".rsm-manifest")) >= 2)
    remote_fixture = TieredTopicFixture(cluster, topics)
    topics.wait_until_tiered(remote_fixture.topic)
    for each in (local_fixture, remote_fixture):
        for suffix in (".rsm-manifest", ".log"):
            each.objects(suffix)[1].unlink()
    local_fixture.clear_cache()
    assert [row[0] for row in rows_of(local_fixture.options())] == list(range(2000))
    segment = remote_fixture.objects(".indexes")[1].stem[21:]
    # Brokers report a temporary failure of the tier: never data loss, so the records are never skipped.
    for strictness in ("true", "false"):
        with pytest.raises(
            KafkaError, match=f"remote segment .*{segment} is gone .* brokers cannot return"
        ) as reported:
            rows_of(remote_fixture.options(failOnDataLoss=strictness))
        assert reported.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    with pytest.raises(DataLossError, match="no segment in the bucket has these offsets"):
        rows_of(remote_fixture.options("offline"))
    for more in ({}, {"maxRecordsPerPartition": "100"}):
        offline = rows_of(remote_fixture.options("offline", failOnDataLoss="false", **more))
        offsets = [row[0] for row in offline]
        assert offsets[0] == 0 and offsets == sorted(set(offsets)) and len(offsets) < 2000


@pytest.mark.parametrize("tier", ["direct", "offline"])
def test_a_topic_recreated_after_planning_is_not_read(
    cluster: EmbeddedCluster, topics: TieredTopics, tier: str
) -> None:
    """The segments are deleted, and others with the same name and offsets exist."""
    fixture = TieredTopicFixture(cluster, topics)
    topics.wait_until_tiered(fixture.topic)
    tasks = [task for task in tasks_of(fixture.options(tier)) if isinstance(task, SlicePartition)]
    topics.delete(fixture.topic)
    wait_until(lambda: not topics.objects(f"{fixture.topic}-"))
    topics.create(fixture.topic, SMALL)
    produce(cluster.bootstrap_servers, fixture.topic, numbered_records(2000, size=200))
    topics.wait_until_tiered(fixture.topic)
    fixture.clear_cache()
    with pytest.raises(DataLossError, match=f"{fixture.topic}-0 should be read from offset 0 .* re-created"):
        rows_of(fixture.options(tier), tasks)
    assert rows_of(fixture.options(tier, failOnDataLoss="false"), tasks) == []


def test_brokers_report_aborted_transactions_when_the_index_is_missing(
    cluster: EmbeddedCluster, topics: TieredTopics
) -> None:
    topic = f"index-{uuid4().hex[:6]}"
    topics.create(topic, {**SMALL, "local.retention.bytes": "-1"})
    fill_with_transactions(cluster, topic, 300)
    wait_until(lambda: len(topics.objects(f"{topic}-")) >= 9)
    more = {"kafka.isolation.level": "read_committed"}
    by_brokers = rows_of(options(cluster, topic, "broker", **more))
    manifests = [path for path in topics.objects(f"{topic}-") if path.suffix == ".rsm-manifest"]
    assert len(manifests) > 1
    manifests[0].unlink()
    tier_storage._open.cache_clear()
    settings = options(cluster, topic, "direct", **more)
    tasks = tasks_of(settings)
    assert all(isinstance(task, RangePartition) for task in tasks)
    assert rows_of(settings, tasks) == by_brokers


def test_corruption_always_fails(cluster: EmbeddedCluster, topics: TieredTopics) -> None:
    fixture = TieredTopicFixture(cluster, topics)
    topics.wait_until_tiered(fixture.topic)
    log = fixture.objects(".log")[1]
    data = bytearray(log.read_bytes())
    data[50_000] ^= 1
    log.write_bytes(data)
    segment = log.stem[21:]
    for tier in ("direct", "offline"):
        with pytest.raises(DecodeError, match=f"{segment}: .*has a wrong checksum"):
            rows_of(fixture.options(tier, failOnDataLoss="false"))


def test_a_stream_checks_once_that_the_store_is_the_brokers(
    cluster: EmbeddedCluster, topics: TieredTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = TieredTopicFixture(cluster, topics)
    topics.wait_until_tiered(fixture.topic)
    settings = fixture.options()
    storage = tier_storage.open_bucket(settings.tier).storage
    requested = []
    fetch_index = storage.fetch_index

    def count_call(metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> ReadableStream:
        requested.append(metadata)
        return fetch_index(metadata, index_type)

    monkeypatch.setattr(storage, "fetch_index", count_call)
    with offset_source(settings) as source:
        planner, ranges = TaskPlanner(settings, source), whole_ranges(settings, source)
        tasks = planner.input_partitions(ranges)
        assert len(requested) == 1 and any(isinstance(task, SlicePartition) for task in tasks)
        again = planner.input_partitions(ranges)
        assert len(requested) == 1 and pickle.dumps(again) == pickle.dumps(tasks)


def test_a_store_that_is_not_the_brokers_is_refused_with_its_option(
    cluster: EmbeddedCluster, transactions: str, tmp_path: Path
) -> None:
    for wrong in ({"storage.root": str(tmp_path)}, {"key.prefix": "another/"}):
        with pytest.raises(
            OptionError, match=r"options rsm\.config\.\*: the store has no segments of .* key\.prefix"
        ):
            tasks_of(
                options(cluster, transactions, "direct", **{f"rsm.config.{k}": v for k, v in wrong.items()})
            )
    with pytest.raises(
        OptionError, match=r"Invalid option: rsm\.config\.storage\.backend\.class=tape; allowed"
    ):
        tasks_of(options(cluster, "any", "offline", **{"rsm.config.storage.backend.class": "tape"}))
    with pytest.raises(OptionError, match="the bucket has no segments of: nowhere"):
        tasks_of(options(cluster, "nowhere", "offline"))
