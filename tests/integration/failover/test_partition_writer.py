"""`PartitionWriter` of the tests writes to the leader, also after a failure."""

from __future__ import annotations

from tests.support.foreign_clients.partition_writer import PartitionWriter
from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.nodes.topic_admin import TopicAdmin
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster


def test_batches_are_written_at_the_next_leader_when_the_leader_has_failed() -> None:
    with EmbeddedCluster(3) as cluster:
        TopicAdmin(cluster.bootstrap_servers).create("tides", {}, 1)
        ThreeNodes(cluster).wait_until_whole("tides")
        writer, topics = PartitionWriter(cluster, "tides"), TieredTopics(cluster)
        assert writer.records(b"first", producer_id=1_000) == 0
        cluster.kill_node(topics.leader("tides"))
        assert writer.records(b"second", producer_id=1_000) == 1
        assert writer.end_transaction(1_000, committed=True) == 2
        wait_until(lambda: topics.offset("tides", -1) == 3)
