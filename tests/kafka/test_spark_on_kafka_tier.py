"""Spark reads a bucket and remote log metadata that were written by Apache Kafka's broker only.

Needs Aiven's plugin in TIDELOG_AIVEN_CLASSPATH.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.kafka.kafka_tier import RECORDS, SMALL_SEGMENTS, TRANSACTIONS, KafkaTier
from tests.support.spark.local_spark import local_spark
from tests.support.spark.streams import Stream
from tests.support.spark.topics import rows_by_offset

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TOPICS = (*CODECS, TRANSACTIONS)


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTier]:
    """Create topics of two leader epochs, most of whose records are in the tier."""
    new_tier = KafkaTier(tmp_path_factory.mktemp("tier"))
    try:
        new_tier.cluster.format(new_tier.node)
        new_tier.start()
        for topic in TOPICS:
            new_tier.clients.create_topic(topic, [[1]], **SMALL_SEGMENTS)
        for codec in CODECS:
            new_tier.write(codec, 0, 1500)
        new_tier.write_transactions(10)
        new_tier.cluster.stop(new_tier.node)
        new_tier.start()
        for codec in CODECS:
            new_tier.write(codec, 1500, 1500)
        new_tier.write_transactions(15)
        yield new_tier
    finally:
        new_tier.cluster.end()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


def by_topic(rows: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    rows_by_topic = {}
    for topic in TOPICS:
        of_topic = sorted((row for row in rows if row["topic"] == topic), key=lambda row: row["offset"])
        offsets = [row["offset"] for row in of_topic]
        rows_by_topic[topic] = [
            (offset, *row) for offset, row in zip(offsets, rows_by_offset(of_topic), strict=True)
        ]
    return rows_by_topic


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_batch_streaming_and_offline_reads_equal_a_consumers(
    isolation: str, tier: KafkaTier, spark: SparkSession, tmp_path: Path
) -> None:
    borders = {topic: tier.wait_until_tiered(topic) for topic in TOPICS}
    assert all(0 < one.tiered_end < one.end for one in borders.values()), borders
    consumed = {topic: tier.consume_all(topic, isolation) for topic in TOPICS}
    assert [row[1:] for row in consumed["zstd"]] == [one.row() for one in RECORDS]
    options = {
        "subscribe": ",".join(TOPICS),
        "includeHeaders": "true",
        "kafka.isolation.level": isolation,
        **tier.store,
    }

    def read(mode: str, **more: str) -> dict[str, list[tuple[Any, ...]]]:
        frame = spark.read.format("tidelog").options(tier=mode, **options, **more).load()
        return by_topic(frame.toArrow().to_pylist())

    servers = {"kafka.bootstrap.servers": tier.servers}
    assert read("direct", maxBytesPerPartition="300000", **servers) == consumed
    stream = Stream(spark, tier.servers, tmp_path, tier="direct", startingOffsets="earliest", **options)
    stream.run()
    assert by_topic(stream.rows()) == consumed
    assert read("offline") == {
        topic: [row for row in rows if row[0] < borders[topic].tiered_end] for topic, rows in consumed.items()
    }
