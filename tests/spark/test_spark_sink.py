"""Spark writes to three brokers with tiering: written rows can be read, or the query reports the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from kafka.partitioner import murmur2
from pyspark.sql import DataFrame, SparkSession

from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.spark.topics import Sent, create_topic, produce, varied_records
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.spark

QUERY_TIMEOUT_S = 300
HEADERS = """array(named_struct('key', 'a', 'value', cast('1' as binary)),
                   named_struct('key', 'a', 'value', null))"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3, tiered=True) as running:
        yield running


@pytest.fixture
def topic(cluster: EmbeddedCluster) -> str:
    name = f"sink-{uuid4().hex[:8]}"
    TieredTopics(cluster).create(name, partitions=3)
    return name


def write(frame: DataFrame, cluster: EmbeddedCluster, **options: str) -> None:
    writer = frame.write.format("tidelog").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    writer.options(**options).mode("append").save()


def read(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> list[dict[str, Any]]:
    """Return the records of the topic, by partition and offset."""
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    rows = reader.option("subscribe", topic).option("includeHeaders", "true").load().toArrow().to_pylist()
    return sorted(rows, key=lambda row: (row["partition"], row["offset"]))


def test_every_column_is_written(spark: SparkSession, cluster: EmbeddedCluster, topic: str) -> None:
    frame = spark.sql(
        f"""select * from values
            ('grün', 'high', {HEADERS}, 0, timestamp'2026-01-02 03:04:05.006'),
            ('', '', array(), 1, timestamp'1970-01-01'),
            (null, null, null, 2, timestamp'2026-01-02 03:04:05.006')
            as rows(key, value, headers, partition, timestamp)"""
    )
    write(frame.selectExpr("*", f"'{topic}' as topic", "'left out' as other"), cluster)
    rows = [
        (row["key"], row["value"], row["headers"], row["partition"], row["timestamp"])
        for row in read(spark, cluster, topic)
    ]
    then = datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=UTC)
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]
    assert rows == [
        ("grün".encode(), b"high", headers, 0, then),
        (b"", b"", None, 1, datetime(1970, 1, 1, tzinfo=UTC)),
        (None, None, None, 2, then),
    ]


def test_keyed_records_are_placed_as_by_kafkas_clients(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    frame = spark.range(300).selectExpr(
        "concat('key ', id) as key", "cast(cast(id as string) as binary) as value"
    )
    before = datetime.now(UTC)
    # The option takes precedence over the column.
    write(frame.selectExpr("*", "'elsewhere' as topic"), cluster, topic=topic)
    rows = read(spark, cluster, topic)
    assert len({row["key"] for row in rows}) == len(rows) == 300
    for row in rows:
        assert row["partition"] == (murmur2(row["key"]) & 0x7FFFFFFF) % 3
    assert min(row["timestamp"] for row in rows) >= before.replace(microsecond=0)


def test_a_record_without_timestamp_gets_the_current_time(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    frame = spark.sql("select 'v' as value, timestamp'1969-12-31 23:59:59.999' as timestamp")
    write(frame, cluster, topic=topic)
    (row,) = read(spark, cluster, topic)
    assert row["timestamp"] >= before


@pytest.mark.parametrize(
    ("sql", "mode", "refusal"),
    [
        ("select 'k' as key", "append", "ColumnError: there is no column 'value'"),
        ("select 1 as value", "append", "column 'value' has type int: expected string or binary"),
        ("select 'v' as value", "overwrite", "mode overwrite is not allowed: topics are append-only"),
        ("select 'v' as value", "errorifexists", 'cannot be written in the "ErrorIfExists" mode'),
        (
            "select repeat('v', 2000000) as value",
            "append",
            "2000036 bytes is larger than max_request_size",
        ),
        ("select 'v' as value, 7 as partition", "append", "partition 7: .* has no partition 7"),
    ],
)
def test_invalid_rows_are_refused_in_one_line(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, sql: str, mode: str, refusal: str
) -> None:
    writer = spark.sql(sql).write.format("tidelog").option("topic", topic)
    with pytest.raises(Exception, match=refusal):
        writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers).mode(mode).save()


def test_a_broker_failure_during_writing_loses_no_record(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str
) -> None:
    nodes = ThreeNodes(cluster)
    nodes.wait_until_whole(topic)
    rows = 60_000
    frame = spark.range(rows).selectExpr("lpad(id, 200, '0') as value", "cast(id % 3 as int) as partition")
    leader = TieredTopics(cluster).leader(topic)

    def kill_when_rows_arrive() -> None:
        wait_until(lambda: TieredTopics(cluster).border(topic).log_end > 1_000, timeout_s=QUERY_TIMEOUT_S)
        cluster.kill_node(leader)

    with ThreadPoolExecutor(1) as others:
        death = others.submit(kill_when_rows_arrive)
        write(frame, cluster, topic=topic)
        death.result()
    try:
        values = [row["value"] for row in read(spark, cluster, topic)]
    finally:
        cluster.start_node(leader)
    assert sorted(values) == [b"%0200d" % number for number in range(rows)]
    nodes.wait_until_whole(topic)


def test_a_stream_from_topic_to_topic_copies_every_byte(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    """The columns of the source are columns of the sink, except the topic."""
    source = f"from-{topic}"
    create_topic(cluster.bootstrap_servers, source, 3)
    sent = varied_records(600, 300)
    for partition in range(3):
        produce(cluster.bootstrap_servers, source, sent[partition::3], partition)

    def run(format_options: dict[str, str]) -> None:
        reader = spark.readStream.format("tidelog").options(subscribe=source, includeHeaders="true")
        reader = reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        reader = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="450")
        writer = reader.load().writeStream.format("tidelog").options(**format_options)
        writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers).queryName("copy")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(QUERY_TIMEOUT_S)

    run({"topic": topic})
    produce(cluster.bootstrap_servers, source, sent[:10])
    run({"topic": topic})
    names = ("partition", "key", "value", "headers", "timestamp")
    copied, original = (
        [tuple(row[name] for name in names) for row in read(spark, cluster, name)] for name in (topic, source)
    )
    assert copied == original
    assert len(copied) == 610


def test_a_failed_micro_batch_is_written_again_completely(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    """At least once: records before the failed one may be written twice."""
    source = f"from-{topic}"
    create_topic(cluster.bootstrap_servers, source)
    sent = [Sent(None, b"%d" % number, (), 1_000) for number in range(3_000)]
    large = Sent(None, bytes(200_000), (), 1_000)
    produce(cluster.bootstrap_servers, source, [*sent[:2_000], large, *sent[2_000:]])

    def run(max_request_size: str) -> None:
        reader = spark.readStream.format("tidelog").options(subscribe=source, startingOffsets="earliest")
        frame = reader.option("kafka.bootstrap.servers", cluster.bootstrap_servers).load()
        writer = frame.select("value").writeStream.format("tidelog").option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        writer = writer.option("kafka.max.request.size", max_request_size)
        writer = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
        assert writer.start().awaitTermination(QUERY_TIMEOUT_S)

    with pytest.raises(Exception, match=f"topic '{topic}': .* is larger than max_request_size=150000"):
        run("150000")
    run("1048576")
    written = Counter(row["value"] for row in read(spark, cluster, topic))
    assert written.keys() == {one.value for one in [*sent, large]}
    assert written[large.value] == 1


def test_output_mode_complete_is_refused(
    spark: SparkSession, cluster: EmbeddedCluster, topic: str, tmp_path: Path
) -> None:
    frame = spark.readStream.format("rate").load().groupBy("value").count()
    writer = frame.selectExpr("cast(value as string) as value").writeStream.format("tidelog")
    writer = writer.option("kafka.bootstrap.servers", cluster.bootstrap_servers).option("topic", topic)
    writer = writer.option("checkpointLocation", str(tmp_path)).outputMode("complete")
    with pytest.raises(Exception, match="output mode complete is not allowed"):
        writer.start().awaitTermination(QUERY_TIMEOUT_S)
