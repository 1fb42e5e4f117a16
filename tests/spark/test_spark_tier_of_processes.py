"""Real Spark reads the tier of three nodes that are processes, while a query and a broker die by kill -9."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.nodes.killed_cluster import TIMEOUT_S, DyingCluster
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


class Tides:
    """A topic for each codec on three nodes, all but its active segment in the tier, and the ways to it.

    Brokers know the store as `tier`, Spark as `bucket`: what is taken from the one is there for the other.
    """

    def __init__(self, folder: Path) -> None:
        self.bucket = folder / "bucket"
        self._cluster = DyingCluster(folder, 3)
        self.servers = self._cluster.cluster.bootstrap_servers
        self.store = {
            "rsm.config.storage.backend.class": "filesystem",
            "rsm.config.storage.root": str(self.bucket),
        }
        self.options = {"subscribe": ",".join(CODECS), "includeHeaders": "true", **self.store}

    def fill(self) -> None:
        """Make the topics, with the first records."""
        for codec in CODECS:
            self._cluster.create(codec, **SMALL)
        self.write(RECORDS[:FIRST])

    def write(self, records: list[Sent]) -> None:
        """The same into each topic."""
        for codec in CODECS:
            produce(self.servers, codec, records, compression_type=codec)

    def settled(self) -> dict[str, int]:
        """Wait until all but the active segments are in the tier alone; where it ends, by topic."""
        for codec in CODECS:
            wait_until(partial(self._is_settled, codec), f"tiered {codec}", timeout_s=TIMEOUT_S)
        borders = {codec: self._cluster.audit.borders(codec) for codec in CODECS}
        assert all(0 < one.tiered_end == one.local_start < one.end for one in borders.values()), borders
        return {codec: one.tiered_end for codec, one in borders.items()}

    def take_from_brokers(self) -> None:
        """What is in the tier comes from now on by Spark's way only."""
        tier = self._cluster.tier
        tier.rename(self.bucket)
        tier.write_text("This is no directory.")

    def give_back(self) -> None:
        """Brokers have the store again."""
        self._cluster.tier.unlink()
        self._cluster.tier.symlink_to(self.bucket)

    def kill_a_leader(self) -> None:
        """End who leads the first topic."""
        self._cluster.cluster.kill(self._cluster.leader(CODECS[0]))

    def stop(self) -> None:
        """No broker runs."""
        self._cluster.stop()

    def _is_settled(self, topic: str) -> bool:
        leader, borders = self._cluster.leader(topic), self._cluster.audit.borders(topic)
        if leader < 0:
            return False
        folder = self._cluster.cluster.layout.data_folder(leader) / f"{topic}-0"
        return [int(path.stem) for path in folder.glob("*.log")] == [borders.tiered_end]


@pytest.fixture
def tides() -> Iterator[Tides]:
    with TemporaryDirectory(prefix="tidelog-spark-") as folder:
        made = Tides(Path(folder))
        try:
            made.fill()
            yield made
        finally:
            made.stop()


def batch(spark: SparkSession, tides: Tides, tier: str, **more: str) -> dict[str, list[tuple[Any, ...]]]:
    """What a batch reads of each topic."""
    reader = spark.read.format("tidelog").options(tier=tier, **tides.options, **more)
    if tier != "offline":
        reader = reader.option("kafka.bootstrap.servers", tides.servers)
    return by_topic(reader.load().toArrow().to_pylist())


def by_topic(rows: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    """Rows in log order; each offset has to be there once, without a gap."""
    found = {}
    for topic in CODECS:
        of_topic = [row for row in rows if row["topic"] == topic]
        assert sorted(row["offset"] for row in of_topic) == list(range(len(of_topic))), topic
        found[topic] = rows_by_offset(of_topic)
    return found


def sent(ends: Mapping[str, int]) -> dict[str, list[tuple[Any, ...]]]:
    """What was produced below `ends`."""
    return {topic: [one.row() for one in RECORDS[:end]] for topic, end in ends.items()}


def brokers_give(tides: Tides, topic: str, offset: int) -> None:
    """Read one record through brokers alone."""
    values = {
        "kafka.bootstrap.servers": tides.servers,
        "subscribe": topic,
        "kafkaConsumer.pollTimeoutMs": "3000",
    }
    settings = ReadSettings.of(read_source_options(values, is_streaming=False))
    list(read_range(settings, OffsetRange(TopicPartition(topic, 0), offset, offset + 1)))


def is_committed(folder: Path, batch_id: int) -> bool:
    """Whether a micro-batch is done."""
    return (folder / "checkpoint" / "commits" / f"{batch_id}").exists()


def planned_ends(folder: Path) -> dict[str, int]:
    """Up to where the newest micro-batch of a checkpoint reads."""
    newest = max((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    offsets = json.loads(newest.read_text().splitlines()[-1])
    return {topic: partitions["0"] for topic, partitions in offsets.items()}


@pytest.mark.long
def test_segments_are_read_while_queries_and_a_leader_die_and_when_no_broker_is_left(
    spark: SparkSession, tides: Tides, tmp_path: Path
) -> None:
    border = tides.settled()
    tides.take_from_brokers()
    with pytest.raises(KafkaError, match="unknown server error"):
        brokers_give(tides, "none", border["none"] - 1)
    assert batch(spark, tides, "direct", maxBytesPerPartition="300000") == sent(dict.fromkeys(CODECS, FIRST))

    options = {"tier": "direct", "startingOffsets": "earliest", **tides.options}
    done = run_until_killed(tides.servers, tmp_path, maxOffsetsPerTrigger="400", **options)
    assert 400 * done < sum(border.values()), "it was behind the border before it was killed"
    stream = Stream(spark, tides.servers, tmp_path, maxOffsetsPerTrigger="600", **options)
    query = stream.start(available_now=False)
    try:
        wait_until(lambda: is_committed(tmp_path, done), timeout_s=QUERY_TIMEOUT_S)
        tides.kill_a_leader()
        # The next but one is planned and read when it is dead.
        wait_until(lambda: is_committed(tmp_path, done + 2), timeout_s=QUERY_TIMEOUT_S)
        assert query.exception() is None
    finally:
        query.stop()
    planned = planned_ends(tmp_path)
    assert all(planned[codec] < border[codec] for codec in CODECS), "nothing of the tier is left to be read"
    tides.write(RECORDS[FIRST:])
    Stream(spark, tides.servers, tmp_path, **options).run()
    assert by_topic(stream.rows()) == sent(dict.fromkeys(CODECS, FIRST + SECOND))

    tides.give_back()
    border_before, border = border, tides.settled()
    assert all(border[codec] > border_before[codec] for codec in CODECS)
    tides.stop()
    assert batch(spark, tides, "offline") == sent(border)
    options["tier"] = "offline"
    (tmp_path / "offline").mkdir()
    stream = Stream(spark, tides.servers, tmp_path / "offline", maxOffsetsPerTrigger="5000", **options)
    stream.run()
    assert by_topic(stream.rows()) == sent(border)
