"""Spark's own Kafka source and ours, in one Spark session, return the same rows of topics on our brokers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tests.reference_software.spark_kafka import spark_kafka_jars
from tests.support.spark.local_spark import local_spark
from tests.support.spark.streams import QUERY_TIMEOUT_S
from tests.support.spark.topics import create_topic, numbered_records, produce, varied_records
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.spark

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ORDER = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
LOG_APPEND_TIME = 1


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_spark(tmp_path_factory.mktemp("spark"), spark_kafka_jars()) as session:
        yield session


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a tiered broker with a topic of each codec, partly remote, and one with LogAppendTime."""
    with EmbeddedCluster(tiered=True) as cluster:
        tiered = TieredTopics(cluster)
        sent = varied_records(3000, 900)
        for codec in CODECS:
            tiered.create(f"codec-{codec}")
            produce(cluster.bootstrap_servers, f"codec-{codec}", sent, compression_type=codec)
        for codec in CODECS:
            border = tiered.wait_until_tiered(f"codec-{codec}")
            assert border.log_start < border.local_start < border.log_end == len(sent)
        create_topic(
            cluster.bootstrap_servers, "codec-broker-time", 2, message_timestamp_type="LogAppendTime"
        )
        for partition in (0, 1):
            produce(cluster.bootstrap_servers, "codec-broker-time", varied_records(300, 100), partition)
        yield cluster.bootstrap_servers


def read(spark: SparkSession, servers: str, source: str, **options: str) -> DataFrame:
    reader = spark.read.format(source).option("kafka.bootstrap.servers", servers)
    return reader.options(**options).load()


def rows_of_both_sources(spark: SparkSession, servers: str, **options: str) -> pa.Table:
    """Return the rows of our source, which equal those of Spark's in columns, types and values."""
    frames = [read(spark, servers, source, **options) for source in ("kafka", "tidelog")]
    theirs, ours = (frame.toArrow().sort_by(ORDER) for frame in frames)
    assert frames[1].schema == frames[0].schema
    assert ours.schema == theirs.schema
    assert ours.to_pylist() == theirs.to_pylist()
    return ours


def test_every_column_equals_sparks_source_in_remote_and_local_records(
    spark: SparkSession, servers: str
) -> None:
    rows = rows_of_both_sources(
        spark, servers, subscribePattern="codec-.*", includeHeaders="true", minPartitions="9"
    )
    assert rows.num_rows == 3000 * len(CODECS) + 600
    assert set(rows["timestampType"].to_pylist()) == {0, LOG_APPEND_TIME}
    assert {None, b""} < set(rows["key"].to_pylist())
    assert {None, b""} < set(rows["value"].to_pylist())
    assert rows["headers"].null_count not in {0, rows.num_rows}
    assert "headers" not in rows_of_both_sources(spark, servers, subscribe="codec-none").column_names


def test_ranges_by_offset_and_by_timestamp_equal_sparks_source(spark: SparkSession, servers: str) -> None:
    start, end = json.dumps({"codec-lz4": {"0": 1234}}), json.dumps({"codec-lz4": {"0": 2345}})
    rows = rows_of_both_sources(
        spark, servers, subscribe="codec-lz4", startingOffsets=start, endingOffsets=end
    )
    assert (rows["offset"][0].as_py(), rows["offset"][-1].as_py()) == (1234, 2344)
    middle = str(round(rows["timestamp"][0].as_py().timestamp() * 1000))
    assert (
        rows_of_both_sources(spark, servers, subscribe="codec-lz4", endingTimestamp=middle).num_rows == 1234
    )
    assert (
        rows_of_both_sources(spark, servers, subscribe="codec-lz4", startingTimestamp=middle).num_rows
        == 3000 - 1234
    )


class Stopped(Exception):
    """The failure of a query that these tests cause."""


class ChangingSource:
    """A streaming query whose source changes between its runs, with one checkpoint and one list of rows."""

    def __init__(self, spark: SparkSession, servers: str, topic: str, folder: Path) -> None:
        self._spark = spark
        self._options = {
            "kafka.bootstrap.servers": servers,
            "subscribe": topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": "150",
        }
        self._folder = folder
        self.rows: list[tuple[int, int, bytes]] = []
        self.batches: list[int] = []

    def run(self, source: str, fail_at: int | None = None) -> None:
        """Read the available records from `source`; the micro-batch `fail_at` fails before it writes."""

        def write(frame: DataFrame, batch: int) -> None:
            if batch == fail_at:
                raise Stopped
            rows = frame.toArrow().to_pylist()
            self.rows += [(row["partition"], row["offset"], row["value"]) for row in rows]
            self.batches.append(batch)

        assert self._start(source, write).awaitTermination(QUERY_TIMEOUT_S), "the query does not end"

    def _start(self, source: str, write: Callable[[DataFrame, int], Any]) -> StreamingQuery:
        frame = self._spark.readStream.format(source).options(**self._options).load()
        writer = frame.writeStream.foreachBatch(write).trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self._folder)).start()


def test_checkpoints_of_sparks_source_and_this_source_are_interchangeable(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    create_topic(servers, "moving", 2)
    query = ChangingSource(spark, servers, "moving", tmp_path)
    expected = []
    for turn, source in enumerate(("kafka", "tidelog", "kafka", "tidelog")):
        sent = numbered_records(200, 200 * turn)
        for partition in (0, 1):
            produce(servers, "moving", sent, partition)
            expected += [(partition, 200 * turn + number, one.value) for number, one in enumerate(sent)]
        query.run(source)
        assert sorted(query.rows) == sorted(expected)
    assert query.batches == [*range(len(query.batches))]


@pytest.mark.parametrize(("before", "after"), [("kafka", "tidelog"), ("tidelog", "kafka")])
def test_a_micro_batch_of_the_other_source_is_repeated_with_its_offsets(
    spark: SparkSession, servers: str, tmp_path: Path, before: str, after: str
) -> None:
    topic = f"begun-by-{before}"
    create_topic(servers, topic, 2)
    for partition in (0, 1):
        produce(servers, topic, numbered_records(200), partition)
    query = ChangingSource(spark, servers, topic, tmp_path)
    with pytest.raises(StreamingQueryException):
        query.run(before, fail_at=1)
    assert (tmp_path / "offsets" / "1").exists()
    assert not (tmp_path / "commits" / "1").exists()
    planned = (tmp_path / "offsets" / "1").read_text()
    query.run(after)
    assert (tmp_path / "offsets" / "1").read_text() == planned
    assert query.batches == [*range(len(query.batches))]
    assert sorted(query.rows) == [
        (partition, number, one.value)
        for partition in (0, 1)
        for number, one in enumerate(numbered_records(200))
    ]
