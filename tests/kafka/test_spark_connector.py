"""Spark reads from and writes to a broker of Apache Kafka with Tidelog's source and sink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.kafka.one_kafka import run_one_kafka
from tests.support.spark.local_spark import local_spark
from tests.support.spark.streams import QUERY_TIMEOUT_S, Stream
from tests.support.spark.topics import create_topic, rows_by_offset, varied_records

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one process of Apache Kafka that is broker and controller."""
    with run_one_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka.node.address


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


def read(spark: SparkSession, servers: str, **options: str) -> list[dict[str, Any]]:
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", servers).options(**options)
    rows: list[dict[str, Any]] = reader.option("includeHeaders", "true").load().toArrow().to_pylist()
    return rows


def values(rows: list[dict[str, Any]]) -> list[bytes]:
    return [row["value"] for row in sorted(rows, key=lambda row: row["offset"])]


def test_records_of_librdkafka_are_read_with_every_codec(spark: SparkSession, servers: str) -> None:
    sent = varied_records(2_000, 300)
    for codec in CODECS:
        create_topic(servers, f"codec-{codec}")
        producer = Producer({"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 50})
        for one in sent:
            headers = cast(list[tuple[str, str | bytes | None]], list(one.headers)) or None
            producer.produce(
                f"codec-{codec}", one.value, one.key, 0, timestamp=one.timestamp_ms, headers=headers
            )
        assert producer.flush(60) == 0
    rows = read(spark, servers, subscribePattern="codec-.*", maxRecordsPerPartition="1200")
    for codec in CODECS:
        of_topic = [row for row in rows if row["topic"] == f"codec-{codec}"]
        assert rows_by_offset(of_topic) == [one.row() for one in sent]
    middle = str(sent[700].timestamp_ms)
    late = read(spark, servers, subscribe="codec-lz4", startingTimestamp=middle)
    assert rows_by_offset(late) == [one.row() for one in sent[700:]]


def test_transactions_of_kafkas_coordinator_are_read_by_isolation_level(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    create_topic(servers, "transactions")
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "tides"})
    producer.init_transactions(60)

    def send(*contents: bytes) -> None:
        producer.begin_transaction()
        for content in contents:
            producer.produce("transactions", content)
        producer.flush(60)

    send(b"committed 1", b"committed 2")
    producer.commit_transaction(60)
    send(b"aborted")
    producer.abort_transaction(60)
    send(b"open")
    committed = {"subscribe": "transactions", "kafka.isolation.level": "read_committed"}
    everything = [b"committed 1", b"committed 2", b"aborted", b"open"]
    assert values(read(spark, servers, subscribe="transactions")) == everything
    assert values(read(spark, servers, **committed)) == [b"committed 1", b"committed 2"]
    stream = Stream(spark, servers, tmp_path, startingOffsets="earliest", **committed)
    stream.run()
    producer.commit_transaction(60)
    stream.run()
    assert stream.values() == [b"committed 1", b"committed 2", b"open"]


def test_the_sink_writes_to_the_partitions_of_librdkafka(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    for topic in ("by-librdkafka", "by-spark", "by-stream"):
        create_topic(servers, topic, 5)
    producer = Producer({"bootstrap.servers": servers, "partitioner": "murmur2"})
    for number in range(500):
        producer.produce("by-librdkafka", f"value {number}", f"key {number}")
    assert producer.flush(60) == 0
    frame = spark.range(500).selectExpr("concat('key ', id) as key", "concat('value ', id) as value")
    writer = frame.write.format("tidelog").option("kafka.bootstrap.servers", servers)
    writer.options(topic="by-spark", **{"kafka.compression.type": "zstd"}).mode("append").save()
    reader = spark.readStream.format("tidelog").option("kafka.bootstrap.servers", servers)
    reader = reader.options(subscribe="by-librdkafka", startingOffsets="earliest")
    stream = reader.load().drop("partition").writeStream.format("tidelog").option("topic", "by-stream")
    stream = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert stream.option("kafka.bootstrap.servers", servers).start().awaitTermination(QUERY_TIMEOUT_S)
    placed = {
        topic: sorted(
            (row["key"], row["value"], row["partition"]) for row in read(spark, servers, subscribe=topic)
        )
        for topic in ("by-librdkafka", "by-spark", "by-stream")
    }
    assert placed["by-librdkafka"] == placed["by-spark"] == placed["by-stream"]
    assert len(placed["by-spark"]) == 500
