"""Spark reads the tier of three node processes while a query and a broker are killed with kill -9."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.nodes.killed_cluster import TIMEOUT_S, CrashingCluster
from tests.support.spark.killed_queries import run_until_killed
from tests.support.spark.streams import QUERY_TIMEOUT_S, Stream
from tests.support.spark.topics import Sent, produce, rows_by_offset, varied_records
from tests.support.waiting import wait_until
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import read_source_options
from tidelog.spark_connector.reading.range_reader import ReadSettings, read_range

pytestmark = pytest.mark.spark

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
FIRST, SECOND = 2000, 800
RECORDS = varied_records(FIRST + SECOND, 400)
SMALL = {"internal_segment_bytes": "150000", "index_interval_bytes": "1000"}


class TieredCodecTopics:
    """A topic per codec on three nodes, remote except for active segments, and two paths to the tier.

    Brokers access the store as `tier`, Spark as `bucket`: a store can be hidden from the brokers only.
    """

    def __init__(self, folder: Path) -> None:
        self.bucket = folder / "bucket"
        self._cluster = CrashingCluster(folder, 3)
        self.servers = self._cluster.cluster.bootstrap_servers
        self.store = {
            "rsm.config.storage.backend.class": "filesystem",
            "rsm.config.storage.root": str(self.bucket),
        }
        self.options = {"subscribe": ",".join(CODECS), "includeHeaders": "true", **self.store}

    def fill(self) -> None:
        """Create the topics with the first records."""
        for codec in CODECS:
            self._cluster.create(codec, **SMALL)
        self.write(RECORDS[:FIRST])

    def write(self, records: list[Sent]) -> None:
        """Write the same records to each topic."""
        for codec in CODECS:
            produce(self.servers, codec, records, compression_type=codec)

    def wait_until_tiered(self) -> dict[str, int]:
        """Wait until only the tier has all but the active segments; return the tier's end by topic."""
        for codec in CODECS:
            wait_until(partial(self._is_tiered, codec), f"tiered {codec}", timeout_s=TIMEOUT_S)
        borders = {codec: self._cluster.audit.borders(codec) for codec in CODECS}
        assert all(0 < one.tiered_end == one.local_start < one.end for one in borders.values()), borders
        return {codec: one.tiered_end for codec, one in borders.items()}

    def hide_store_from_brokers(self) -> None:
        """Make remote segments available to Spark only."""
        tier = self._cluster.tier
        tier.rename(self.bucket)
        tier.write_text("This is not a directory.")

    def return_store_to_brokers(self) -> None:
        """Make the store available to brokers again."""
        self._cluster.tier.unlink()
        self._cluster.tier.symlink_to(self.bucket)

    def kill_a_leader(self) -> None:
        """Kill the leader of the first topic."""
        self._cluster.cluster.kill(self._cluster.leader(CODECS[0]))

    def stop(self) -> None:
        """Stop all brokers."""
        self._cluster.stop()

    def _is_tiered(self, topic: str) -> bool:
        leader, borders = self._cluster.leader(topic), self._cluster.audit.borders(topic)
        if leader < 0:
            return False
        folder = self._cluster.cluster.layout.data_folder(leader) / f"{topic}-0"
        return [int(path.stem) for path in folder.glob("*.log")] == [borders.tiered_end]


@pytest.fixture
def tides() -> Iterator[TieredCodecTopics]:
    with TemporaryDirectory(prefix="tidelog-spark-") as folder:
        fixture = TieredCodecTopics(Path(folder))
        try:
            fixture.fill()
            yield fixture
        finally:
            fixture.stop()


def batch(
    spark: SparkSession, tides: TieredCodecTopics, tier: str, **more: str
) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of each topic that a batch query reads."""
    reader = spark.read.format("tidelog").options(tier=tier, **tides.options, **more)
    if tier != "offline":
        reader = reader.option("kafka.bootstrap.servers", tides.servers)
    return by_topic(reader.load().toArrow().to_pylist())


def by_topic(rows: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """Return rows by topic in log order; each offset must occur once, without a gap."""
    rows_by_topic = {}
    for topic in CODECS:
        of_topic = [row for row in rows if row["topic"] == topic]
        assert sorted(row["offset"] for row in of_topic) == list(range(len(of_topic))), topic
        rows_by_topic[topic] = rows_by_offset(of_topic)
    return rows_by_topic


def sent_records(ends: Mapping[str, int]) -> dict[str, list[tuple[Any, ...]]]:
    """Return the produced records below `ends`."""
    return {topic: [one.row() for one in RECORDS[:end]] for topic, end in ends.items()}


def read_through_brokers(tides: TieredCodecTopics, topic: str, offset: int) -> None:
    """Read one record through brokers alone."""
    values = {
        "kafka.bootstrap.servers": tides.servers,
        "subscribe": topic,
        "kafkaConsumer.pollTimeoutMs": "3000",
    }
    settings = ReadSettings.of(read_source_options(values, is_streaming=False))
    list(read_range(settings, OffsetRange(TopicPartition(topic, 0), offset, offset + 1)))


def is_committed(folder: Path, batch_id: int) -> bool:
    """Return whether a micro-batch is committed."""
    return (folder / "checkpoint" / "commits" / f"{batch_id}").exists()


def planned_ends(folder: Path) -> dict[str, int]:
    """Return the end offsets of the newest micro-batch of a checkpoint."""
    newest = max((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    offsets = json.loads(newest.read_text().splitlines()[-1])
    return {topic: partitions["0"] for topic, partitions in offsets.items()}


@pytest.mark.long
def test_segments_are_read_through_query_and_leader_failures_and_without_brokers(
    spark: SparkSession, tides: TieredCodecTopics, tmp_path: Path
) -> None:
    border = tides.wait_until_tiered()
    tides.hide_store_from_brokers()
    with pytest.raises(KafkaError, match="unknown server error"):
        read_through_brokers(tides, "none", border["none"] - 1)
    assert batch(spark, tides, "direct", maxBytesPerPartition="300000") == sent_records(
        dict.fromkeys(CODECS, FIRST)
    )

    options = {"tier": "direct", "startingOffsets": "earliest", **tides.options}
    done = run_until_killed(tides.servers, tmp_path, maxOffsetsPerTrigger="400", **options)
    assert 400 * done < sum(border.values()), "the query had passed the border before it was killed"
    stream = Stream(spark, tides.servers, tmp_path, maxOffsetsPerTrigger="600", **options)
    query = stream.start(available_now=False)
    try:
        wait_until(lambda: is_committed(tmp_path, done), timeout_s=QUERY_TIMEOUT_S)
        tides.kill_a_leader()
        # The next batch but one is planned and read after the leader was killed.
        wait_until(lambda: is_committed(tmp_path, done + 2), timeout_s=QUERY_TIMEOUT_S)
        assert query.exception() is None
    finally:
        query.stop()
    planned = planned_ends(tmp_path)
    assert all(planned[codec] < border[codec] for codec in CODECS), "no remote records are left to be read"
    tides.write(RECORDS[FIRST:])
    Stream(spark, tides.servers, tmp_path, **options).run()
    assert by_topic(stream.rows()) == sent_records(dict.fromkeys(CODECS, FIRST + SECOND))

    tides.return_store_to_brokers()
    border_before, border = border, tides.wait_until_tiered()
    assert all(border[codec] > border_before[codec] for codec in CODECS)
    tides.stop()
    assert batch(spark, tides, "offline") == sent_records(border)
    options["tier"] = "offline"
    (tmp_path / "offline").mkdir()
    stream = Stream(spark, tides.servers, tmp_path / "offline", maxOffsetsPerTrigger="5000", **options)
    stream.run()
    assert by_topic(stream.rows()) == sent_records(border)
