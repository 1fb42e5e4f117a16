"""Spark reads remote segments directly from the object store, with and without brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.nodes.fetched_offsets import fetched_offsets
from tests.support.s3.server import s3_server
from tests.support.spark.topics import numbered_records, produce, rows_by_offset, varied_records
from tests.support.tier.segment_configs import encryption_configs, key_pair, write_key_pair
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.spark

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
QUERY_TIMEOUT_S = 300
SMALL = {"internal.segment.bytes": "300000", "index.interval.bytes": "1000"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(tiered=True) as running:
        yield running


def store_of(cluster: EmbeddedCluster) -> dict[str, str]:
    """Return the options for the directory that is the cluster's object store."""
    return {
        "rsm.config.storage.backend.class": "filesystem",
        "rsm.config.storage.root": str(cluster.tier_dir),
    }


def batch(spark: SparkSession, servers: str | None, **options: str) -> DataFrame:
    reader = spark.read.format("tidelog").options(**options)
    return (reader if servers is None else reader.option("kafka.bootstrap.servers", servers)).load()


def content(frame: DataFrame) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of each topic in log order; their offsets must be those of the log, without a gap."""
    rows = frame.toArrow().to_pylist()
    topics = {}
    for topic in {row["topic"] for row in rows}:
        of_topic = [row for row in rows if row["topic"] == topic]
        offsets = sorted(row["offset"] for row in of_topic)
        assert offsets == list(range(offsets[0], offsets[-1] + 1))
        topics[topic] = rows_by_offset(of_topic)
    return topics


def test_records_are_read_directly_from_the_store_with_every_codec(
    spark: SparkSession, cluster: EmbeddedCluster
) -> None:
    tiered = TieredTopics(cluster)
    sent = varied_records(2400, 500)
    prefix = f"codec-{uuid4().hex[:6]}"
    for codec in COMPRESSIONS:
        tiered.create(f"{prefix}-{codec}", SMALL)
        produce(cluster.bootstrap_servers, f"{prefix}-{codec}", sent, compression_type=codec)
    borders = {f"{prefix}-{codec}": tiered.wait_until_tiered(f"{prefix}-{codec}") for codec in COMPRESSIONS}
    options = {"subscribePattern": f"{prefix}-.*", "includeHeaders": "true", **store_of(cluster)}
    with fetched_offsets() as fetched:
        direct = batch(
            spark, cluster.bootstrap_servers, tier="direct", maxBytesPerPartition="500000", **options
        )
        rows = content(direct)
    expected = [one.row() for one in sent]
    assert rows == dict.fromkeys(borders, expected)
    requested = [one for one in fetched if one[0] in borders]
    assert {topic for topic, _, _ in requested} == borders.keys()
    assert all(offset >= borders[topic].highest_remote + 1 for topic, _, offset in requested)
    assert content(batch(spark, cluster.bootstrap_servers, tier="broker", **options)) == rows
    offline = batch(spark, None, tier="offline", **options)
    assert offline.columns == direct.columns
    assert content(offline) == {topic: expected[: border.local_start] for topic, border in borders.items()}
    assert offline.limit(3).count() == 3


def test_a_stream_continues_from_its_checkpoint_while_segments_are_tiered(
    spark: SparkSession, cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    tiered = TieredTopics(cluster)
    topic = f"backfill-{uuid4().hex[:6]}"
    tiered.create(topic, SMALL)
    produce(cluster.bootstrap_servers, topic, numbered_records(3000, size=300))
    tiered.wait_until_tiered(topic)

    def run(**options: str) -> list[int]:
        reader = spark.readStream.format("tidelog").options(subscribe=topic, startingOffsets="earliest")
        reader = reader.options(**store_of(cluster), maxOffsetsPerTrigger="1300", **options)
        writer = reader.load().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = (
            writer.format("parquet").option("path", str(tmp_path / "rows")).trigger(availableNow=True).start()
        )
        assert query.awaitTermination(QUERY_TIMEOUT_S), "the query does not end"
        return [one["numInputRows"] for one in query.recentProgress if one["numInputRows"]]

    def values() -> list[bytes]:
        frame = spark.read.parquet(str(tmp_path / "rows"))
        return [row.value for row in frame.select("value").orderBy("offset").collect()]

    direct = {"tier": "direct", "kafka.bootstrap.servers": cluster.bootstrap_servers}
    with fetched_offsets() as fetched:
        assert run(**direct) == [1300, 1300, 400]
    border = tiered.border(topic).highest_remote + 1
    assert min(offset for name, _, offset in fetched if name == topic) == border
    produce(cluster.bootstrap_servers, topic, numbered_records(1500, 3000, size=300))
    assert run(**direct) == [1300, 200]
    assert values() == [one.value for one in numbered_records(4500, size=300)]
    # The same checkpoint continues without brokers, up to the end of the tier.
    produce(cluster.bootstrap_servers, topic, numbered_records(2000, 4500, size=300))
    end = tiered.wait_until_tiered(topic).local_start
    assert sum(run(tier="offline")) == end - 4500
    assert values() == [one.value for one in numbered_records(end, size=300)]


def with_option_prefix(values: Mapping[str, str]) -> dict[str, str]:
    return {f"rsm.config.{key}": text for key, text in values.items()}


def s3_options(config: Mapping[str, str]) -> dict[str, str]:
    storage = {f"storage.{key}": text for key, text in config.items()}
    return with_option_prefix({"storage.backend.class": "s3", **storage})


def test_encrypted_and_compressed_segments_in_s3_are_read_without_brokers(
    spark: SparkSession, tmp_path: Path
) -> None:
    with s3_server() as server, server.bucket() as bucket:
        store = {
            **s3_options(server.config(bucket)),
            # Spark passes names of options in lower case, and one of them contains the id of a key pair.
            **with_option_prefix(encryption_configs(*write_key_pair(key_pair(), tmp_path), pair_id="Key-A")),
            "rsm.config.key.prefix": "a/b/",
            "rsm.config.chunk.size": "50000",
            "rsm.config.compression.enabled": "true",
        }
        sent = varied_records(2500, 400)
        options = {"subscribe": "tides", "includeHeaders": "true", "maxBytesPerPartition": "120000", **store}
        with EmbeddedCluster(tiered=True, config=store) as cluster:
            tiered = TieredTopics(cluster)
            tiered.create("tides", SMALL)
            produce(cluster.bootstrap_servers, "tides", sent)
            end = tiered.wait_until_tiered("tides").local_start
            direct = batch(spark, cluster.bootstrap_servers, tier="direct", **options)
            assert content(direct) == {"tides": [one.row() for one in sent]}
        offline = batch(spark, None, tier="offline", **options)
        assert content(offline) == {"tides": [one.row() for one in sent[:end]]}
        assert offline.rdd.getNumPartitions() > 3
        wrong = {**options, **s3_options({**server.config(bucket), "s3.bucket.name": "nowhere"})}
        with pytest.raises(Exception, match="nowhere"):
            batch(spark, None, tier="offline", **wrong).count()
