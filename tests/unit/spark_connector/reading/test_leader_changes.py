"""A range is read to its end although the partition's leader fails meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.support.spark.topics import create_topic, produce, rows_by_offset, varied_records
from tests.support.tier.tiered_topics import TieredTopics
from tidelog.protocol.ids import TopicPartition
from tidelog.spark_connector.planning.ranges import OffsetRange
from tidelog.spark_connector.planning.source_options import read_source_options
from tidelog.spark_connector.reading.range_reader import ReadSettings, read_range
from tidelog.testing.embedded import EmbeddedCluster

RECORDS = varied_records(2000, 400)


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(3) as running:
        yield running


def test_a_leader_failure_during_a_batch_loses_no_record(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    create_topic(servers, "tides")
    produce(servers, "tides", RECORDS, acks="all")
    values = {
        "kafka.bootstrap.servers": servers,
        "subscribe": "tides",
        "includeHeaders": "true",
        # Small fetches, so that most records are still to be fetched when the leader fails.
        "kafka.max.partition.fetch.bytes": "20000",
    }
    settings = replace(ReadSettings.of(read_source_options(values, is_streaming=False)), max_rows=100)
    leader = TieredTopics(cluster).leader("tides")
    killed = False
    rows = []
    for batch in read_range(settings, OffsetRange(TopicPartition("tides", 0), 0, len(RECORDS))):
        rows += batch.to_pylist()
        if not killed:
            cluster.kill_node(leader)
            killed = True
    assert rows_by_offset(rows) == [one.row() for one in RECORDS]
    assert TieredTopics(cluster).leader("tides") != leader
