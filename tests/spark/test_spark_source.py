"""Spark reads a tiered broker: queries return the produced records, local and remote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import tidelog.spark_connector
from tests.support.spark.streams import QUERY_TIMEOUT_S, Stream
from tests.support.spark.topics import (
    Sent,
    create_topic,
    numbered_records,
    produce,
    rows_by_offset,
    varied_records,
)
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.spark

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tiered=True) as running:
        yield running


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    name = f"tides-{uuid4().hex[:8]}"
    create_topic(cluster.bootstrap_servers, name, 2)
    return name


def batch(spark: SparkSession, cluster: EmbeddedCluster, **options: str) -> DataFrame:
    """Return the rows of a batch query."""
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.options(**options).load()


def test_remote_and_local_records_are_read_with_every_codec(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    tiered = TieredTopics(cluster)
    sent = varied_records(6000, 900)
    prefix = f"codec-{uuid4().hex[:6]}"
    for codec in COMPRESSIONS:
        tiered.create(f"{prefix}-{codec}")
        produce(cluster.bootstrap_servers, f"{prefix}-{codec}", sent, compression_type=codec)
    for codec in COMPRESSIONS:
        border = tiered.wait_until_tiered(f"{prefix}-{codec}")
        assert 0 == border.log_start < border.local_start < border.log_end == len(sent)
    frame = batch(
        spark, cluster, subscribePattern=f"{prefix}-.*", includeHeaders="true", maxRecordsPerPartition="2500"
    )
    assert frame.columns == [*COLUMNS, "headers"]
    rows = frame.toArrow().to_pylist()
    expected = [one.row() for one in sent]
    for codec in COMPRESSIONS:
        of_topic = [row for row in rows if row["topic"] == f"{prefix}-{codec}"]
        assert [row["offset"] for row in sorted(of_topic, key=lambda row: row["offset"])] == list(range(6000))
        assert {(row["partition"], row["timestampType"]) for row in of_topic} == {(0, 0)}
        assert rows_by_offset(of_topic) == expected


def test_batches_read_the_range_of_the_options(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    produce(cluster.bootstrap_servers, topic, numbered_records(50))
    produce(cluster.bootstrap_servers, topic, numbered_records(30), partition=1)
    one = batch(
        spark,
        cluster,
        assign=f'{{"{topic}":[0]}}',
        startingOffsets=f'{{"{topic}":{{"0":7}}}}',
        endingTimestamp="1040",
        minPartitions="4",
    )
    assert one.columns == COLUMNS
    assert one.rdd.getNumPartitions() == 4
    assert sorted(row.offset for row in one.select("offset").collect()) == list(range(7, 40))
    everything = batch(spark, cluster, subscribe=topic)
    assert everything.groupBy("partition").count().orderBy("partition").collect() == [(0, 50), (1, 30)]
    assert everything.limit(3).count() == 3


def test_pushed_down_filters_omit_only_rows_that_cannot_match(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    """Timestamps are out of order: they do not show the end of a range."""
    sent = [Sent(None, b"%d" % number, (), 1_000 + (number * 7) % 50) for number in range(50)]
    produce(cluster.bootstrap_servers, topic, sent)
    produce(cluster.bootstrap_servers, topic, numbered_records(50), partition=1)
    spark.conf.set(PUSHDOWN_CONF, "true")
    try:
        for condition, tasks in (
            ("partition = 1 and offset >= 45", 1),
            ("timestamp between timestamp_millis(1040) and timestamp_millis(1042)", 2),
            ("timestamp > timestamp_millis(2000)", 0),
            ("topic = 'elsewhere'", 0),
            ("offset in (3, 7) or partition = 0", 2),
        ):
            plain, pushed = (
                batch(spark, cluster, subscribe=topic, **options).where(condition)
                for options in ({}, {"pushdown": "true"})
            )
            assert sorted(pushed.collect()) == sorted(plain.collect())
            # Spark creates one empty task if there is none.
            assert pushed.rdd.getNumPartitions() == max(tasks, 1)
        assert len(plain.collect()) == 52
    finally:
        spark.conf.unset(PUSHDOWN_CONF)
    with pytest.raises(Exception, match=PUSHDOWN_CONF):
        batch(spark, cluster, subscribe=topic, pushdown="true").count()


def test_the_source_can_be_registered_twice(spark: SparkSession) -> None:
    tidelog.spark_connector.register(spark)
    tidelog.spark_connector.register(spark)
    with pytest.raises(Exception, match="exactly one of subscribe"):
        spark.read.format("tidelog").option("kafka.bootstrap.servers", "localhost:1").load().count()


def test_an_invalid_option_is_reported_in_one_line(spark: SparkSession, cluster: EmbeddedCluster) -> None:
    with pytest.raises(Exception, match="Invalid option: failOnDataLoss='perhaps'; expected true or false"):
        batch(spark, cluster, subscribe="tides", failOnDataLoss="perhaps").count()


def test_a_stream_continues_from_its_checkpoint_and_finds_new_partitions(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    prefix = f"grow-{uuid4().hex[:6]}"
    create_topic(cluster.bootstrap_servers, f"{prefix}-a")
    produce(cluster.bootstrap_servers, f"{prefix}-a", numbered_records(100))
    stream = Stream(
        spark,
        cluster.bootstrap_servers,
        tmp_path,
        subscribePattern=f"{prefix}-.*",
        startingOffsets="earliest",
        maxOffsetsPerTrigger="40",
    )
    stream.run()
    assert [size for size in stream.batch_sizes if size] == [40, 40, 20]
    produce(cluster.bootstrap_servers, f"{prefix}-a", numbered_records(10, 100))
    create_topic(cluster.bootstrap_servers, f"{prefix}-b")
    produce(cluster.bootstrap_servers, f"{prefix}-b", numbered_records(5, 110))
    stream.run()
    assert stream.values() == [one.value for one in numbered_records(115)]
    stream.run()
    assert len(stream.rows()) == 115
    logged = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    last = logged[-1].read_text().splitlines()[-1].replace(" ", "")
    assert last == f'{{"{prefix}-a":{{"0":110}},"{prefix}-b":{{"0":5}}}}'


def test_a_query_that_fails_in_its_first_batch_with_data_repeats_it(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    """The query began at the end: if the end were queried again, records in between would be lost."""
    produce(cluster.bootstrap_servers, topic, numbered_records(20))
    fails = [True]
    received: list[bytes] = []

    def take(frame: DataFrame, _batch_id: int) -> None:
        values = [row.value for row in frame.select("value").collect()]
        if values and fails[0]:
            raise RuntimeError("the sink is unavailable")
        received.extend(map(bytes, values))

    def start() -> StreamingQuery:
        reader = spark.readStream.format("tidelog").option("subscribe", topic)
        frame = reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers).load()
        checkpoint = str(tmp_path / "checkpoint")
        return frame.writeStream.foreachBatch(take).option("checkpointLocation", checkpoint).start()

    query = start()
    wait_until(lambda: query.lastProgress is not None, timeout_s=QUERY_TIMEOUT_S)
    produce(cluster.bootstrap_servers, topic, numbered_records(10, 20))
    with pytest.raises(Exception, match="the sink is unavailable"):
        query.awaitTermination(QUERY_TIMEOUT_S)
    produce(cluster.bootstrap_servers, topic, numbered_records(10, 30))
    fails[0] = False
    query = start()
    try:
        wait_until(lambda: len(received) >= 20, timeout_s=QUERY_TIMEOUT_S)
    finally:
        query.stop()
    assert sorted(received) == [one.value for one in numbered_records(20, 20)]


def test_a_stream_from_latest_loses_no_record_after_its_start(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    """The first batch is an empty anchor: after a crash at any point, the start is in Spark's log."""
    produce(cluster.bootstrap_servers, topic, numbered_records(20))
    stream = Stream(spark, cluster.bootstrap_servers, tmp_path, subscribe=topic)
    stream.run()
    assert sum(stream.batch_sizes) == 0
    produce(cluster.bootstrap_servers, topic, numbered_records(15, 20))
    stream.run()
    assert stream.values() == [one.value for one in numbered_records(15, 20)]
