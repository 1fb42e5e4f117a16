"""Complete queries on three brokers with tiering, while queries and brokers fail and logs change."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.foreign_clients.partition_writer import PartitionWriter
from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.spark.killed_queries import run_until_killed
from tests.support.spark.streams import QUERY_TIMEOUT_S, Stream
from tests.support.spark.topics import Sent, create_topic, produce
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.spark


# Spark takes all cores for seconds. A broker that is late must not lose its leadership: records that tests
# append only to the leader would be lost with it.
SLOW_TO_FENCE = {"broker.session.timeout.ms": "10000", "replica.lag.time.max.ms": "20000"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, tiered=True, config=SLOW_TO_FENCE) as running:
        yield running


@pytest.fixture
def tiered(cluster: EmbeddedCluster) -> TieredTopics:
    return TieredTopics(cluster)


@pytest.fixture
def topic() -> str:
    return f"tides-{uuid4().hex[:8]}"


def large_records(count: int, first: int = 0) -> list[Sent]:
    """Return records of 1 KiB, so that a thousand of them fill a segment."""
    return [Sent(None, b"%01000d" % number, (), 1_000 + number) for number in range(first, first + count)]


def values(*parts: list[Sent]) -> list[bytes]:
    return sorted(one.value or b"" for part in parts for one in part)


def test_a_killed_query_continues_across_the_local_log_start(
    spark: SparkSession, cluster: EmbeddedCluster, tiered: TieredTopics, topic: str, tmp_path: Path
) -> None:
    tiered.create(topic)
    first, second = large_records(4_500), large_records(500, 4_500)
    produce(cluster.bootstrap_servers, topic, first)
    border = tiered.wait_until_tiered(topic)
    assert 0 < border.local_start < border.log_end
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    done = run_until_killed(cluster.bootstrap_servers, tmp_path, maxOffsetsPerTrigger="100", **options)
    assert 100 * done < len(first), "the query ended before it was killed"
    produce(cluster.bootstrap_servers, topic, second)
    stream = Stream(spark, cluster.bootstrap_servers, tmp_path, maxOffsetsPerTrigger="2000", **options)
    stream.run()
    rows = stream.rows()
    assert sorted(row["offset"] for row in rows) == list(range(5_000))
    assert sorted(row["value"] for row in rows) == values(first, second)


@pytest.mark.long
def test_a_killed_query_from_topic_to_topic_loses_nothing(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    """At least once: the records of the killed micro-batch may be written twice."""
    copy = f"{topic}-copy"
    for name in (topic, copy):
        create_topic(cluster.bootstrap_servers, name)
    sent = large_records(4_500)
    produce(cluster.bootstrap_servers, topic, sent)
    options = {"into": copy, "subscribe": topic, "startingOffsets": "earliest"}
    done = run_until_killed(cluster.bootstrap_servers, tmp_path, maxOffsetsPerTrigger="100", **options)
    assert 100 * done < len(sent), "the query ended before it was killed"
    Stream(spark, cluster.bootstrap_servers, tmp_path, **options).run()
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    written = [row.value for row in reader.option("subscribe", copy).load().select("value").collect()]
    assert sorted(set(written)) == values(sent)
    # At most one micro-batch was in progress.
    assert len(written) <= len(sent) + 100


def test_a_stream_continues_after_a_leader_failure(
    spark: SparkSession, cluster: EmbeddedCluster, tiered: TieredTopics, topic: str, tmp_path: Path
) -> None:
    nodes = ThreeNodes(cluster)
    tiered.create(topic)
    nodes.wait_until_whole(topic)
    first, second = large_records(100), large_records(100, 100)
    produce(cluster.bootstrap_servers, topic, first)
    stream = Stream(spark, cluster.bootstrap_servers, tmp_path, subscribe=topic, startingOffsets="earliest")
    query = stream.start(available_now=False)
    leader = tiered.leader(topic)
    try:
        wait_until(lambda: (tmp_path / "checkpoint" / "commits" / "0").exists(), timeout_s=QUERY_TIMEOUT_S)
        cluster.kill_node(leader)
        produce(cluster.bootstrap_servers, topic, second)
        query.processAllAvailable()
        assert query.exception() is None
    finally:
        query.stop()
        cluster.start_node(leader)
    assert stream.values() == values(first, second)
    nodes.wait_until_whole(topic)


def test_a_checkpoint_below_the_log_start_is_data_loss_or_skipped_by_option(
    spark: SparkSession, cluster: EmbeddedCluster, tiered: TieredTopics, topic: str, tmp_path: Path
) -> None:
    tiered.create(topic)
    first, second = large_records(50), large_records(4_000, 50)
    produce(cluster.bootstrap_servers, topic, first)
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    Stream(spark, cluster.bootstrap_servers, tmp_path, **options).run()
    produce(cluster.bootstrap_servers, topic, second)
    tiered.alter(topic, {"retention.bytes": "1500000"})
    wait_until(lambda: tiered.border(topic).log_start > 50, timeout_s=QUERY_TIMEOUT_S)
    with pytest.raises(Exception, match=rf"{topic}-0.* 50"):
        Stream(spark, cluster.bootstrap_servers, tmp_path, **options).run()
    wait_until(lambda: tiered.border(topic).log_end == 4_050, timeout_s=QUERY_TIMEOUT_S)
    stream = Stream(spark, cluster.bootstrap_servers, tmp_path, failOnDataLoss="false", **options)
    stream.run()
    offsets = sorted(row["offset"] for row in stream.rows())
    log_start = tiered.border(topic).log_start
    assert offsets[:50] == list(range(50))
    # Retention continues: the records that it left when the query began are read without a gap.
    assert offsets[50:] == list(range(offsets[50], 4_050))
    assert 50 < offsets[50] <= log_start


def test_added_partitions_are_read_from_their_start(
    spark: SparkSession, cluster: EmbeddedCluster, tiered: TieredTopics, topic: str, tmp_path: Path
) -> None:
    tiered.create(topic)
    produce(cluster.bootstrap_servers, topic, large_records(20))
    stream = Stream(spark, cluster.bootstrap_servers, tmp_path, subscribe=topic, startingOffsets="earliest")
    stream.run()

    async def add_partitions() -> None:
        async with Admin(cluster.bootstrap_servers) as admin:
            assert (await admin.create_partitions({topic: 3}))[topic] is None

    asyncio.run(add_partitions())
    ThreeNodes(cluster).wait_until_whole(topic)
    produce(cluster.bootstrap_servers, topic, large_records(20, 20), partition=2)
    stream.run()
    assert stream.values() == values(large_records(40))
    assert {(row["partition"], row["offset"] < 20) for row in stream.rows()} == {(0, True), (2, True)}


def test_batches_and_streams_follow_the_isolation_level(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    create_topic(cluster.bootstrap_servers, topic)
    ThreeNodes(cluster).wait_until_whole(topic)
    produce(cluster.bootstrap_servers, topic, [Sent(None, b"plain", (), 1_000)])
    writer = PartitionWriter(cluster, topic)
    writer.records(b"aborted 1", b"aborted 2", producer_id=1_000)
    writer.records(b"committed", producer_id=1_001)
    writer.end_transaction(1_000, committed=False)
    writer.end_transaction(1_001, committed=True)
    writer.records(b"open", producer_id=1_001)
    writer.records(b"behind the open one")
    wait_until(lambda: end_of(cluster, topic) == 8, timeout_s=QUERY_TIMEOUT_S)
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    everything = [row.value for row in reader.option("subscribe", topic).load().sort("offset").collect()]
    aborted = [b"aborted 1", b"aborted 2"]
    assert everything == [b"plain", *aborted, b"committed", b"open", b"behind the open one"]
    reader = reader.option("kafka.isolation.level", "read_committed")
    assert [row.value for row in reader.load().sort("offset").collect()] == [b"plain", b"committed"]
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    stream = Stream(spark, cluster.bootstrap_servers, tmp_path, **options)
    stream.run()
    assert stream.values() == [b"committed", b"plain"]
    writer.end_transaction(1_001, committed=True)
    wait_until(lambda: end_of(cluster, topic) == 9, timeout_s=QUERY_TIMEOUT_S)
    stream.run()
    assert stream.values() == [b"behind the open one", b"committed", b"open", b"plain"]


def end_of(cluster: EmbeddedCluster, topic: str) -> int:
    """Return the high watermark of the only partition."""
    return TieredTopics(cluster).offset(topic, -1)


def test_a_query_that_stops_early_and_one_from_sparks_checkpoint_read_all_records(
    spark: SparkSession, cluster: EmbeddedCluster, tiered: TieredTopics, topic: str, tmp_path: Path
) -> None:
    """The checkpoint is like that of Spark's Kafka source: compact JSON, with a file of initial offsets."""
    tiered.create(topic, partitions=2)
    for partition in range(2):
        produce(cluster.bootstrap_servers, topic, large_records(1_500, 1_500 * partition), partition)
        tiered.wait_until_tiered(topic, partition)
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    frame = reader.option("subscribe", topic).load()
    assert len(frame.limit(3).collect()) == 3
    assert frame.count() == 3_000
    write_spark_checkpoint(tmp_path, {topic: {"0": 1_490, "1": 700}}, {topic: {"0": 0, "1": 0}})
    stream = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    batches: dict[int, list[bytes]] = {}

    def take(rows: DataFrame, batch_id: int) -> None:
        batches[batch_id] = sorted(row.value for row in rows.collect())

    writer = stream.option("subscribe", topic).load().writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_TIMEOUT_S)
    assert batches == {1: values(large_records(10, 1_490), large_records(800, 2_200))}


def write_spark_checkpoint(
    folder: Path, done: dict[str, dict[str, int]], initial: dict[str, dict[str, int]]
) -> None:
    """Write the checkpoint that `format("kafka")` has after batch 0."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": str(uuid4())}))
    times = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000, "conf": {}})
    (folder / "offsets" / "0").write_text("\n".join(["v1", times, compact(done)]))
    (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    (folder / "sources" / "0" / "0").write_text(f"\0v1\n{compact(initial)}")


def compact(offsets: dict[str, dict[str, int]]) -> str:
    """Return compact JSON, as Spark writes it."""
    return json.dumps(offsets, separators=(",", ":"))
