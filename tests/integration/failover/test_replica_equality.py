"""Three nodes: the logs of followers equal the leader's, byte by byte, after any failure."""

from __future__ import annotations

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.partition_logs import batch
from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.leader_epoch import EpochEntry

T0 = TopicPartition("tides", 0)


def contents(three_nodes: ThreeNodes, node_id: int) -> tuple[bytes, list[EpochEntry], int]:
    """Return the bytes, leader epochs and high watermark of a node's replica."""

    def read(node: BrokerNode) -> tuple[bytes, list[EpochEntry], int]:
        log = node.services.replicas.partition(T0).log
        data = b"".join(segment.file.pread(segment.size_bytes, 0) for segment in log.segments)
        return data, log.leader_epochs.entries, log.high_watermark

    return three_nodes.cluster.run(read, node_id)


def are_equal(three_nodes: ThreeNodes, records: int) -> bool:
    """Return whether all three replicas are equal and completely committed."""
    first, *others = (contents(three_nodes, node_id) for node_id in (1, 2, 3))
    return first[2] == records and all(other == first for other in others)


def test_followers_equal_the_leader_after_every_node_was_killed(three_nodes: ThreeNodes) -> None:
    three_nodes.create_topic("tides", 1, min_insync_replicas="2")
    records = 0
    for node_id in (1, 2, 3):
        three_nodes.cluster.kill_node(node_id)
        if three_nodes.partition("tides").leader == node_id:
            three_nodes.wait_for_leader_other_than("tides", node_id)
        three_nodes.produce("tides", [f"without {node_id}: {number}" for number in range(500)], 1)
        records += 500
        three_nodes.cluster.start_node(node_id)
        three_nodes.wait_until_whole("tides")
    wait_until(lambda: are_equal(three_nodes, records))


def test_unreplicated_records_are_truncated_when_their_leader_returns(three_nodes: ThreeNodes) -> None:
    three_nodes.create_topic("tides", 1, min_insync_replicas="2")
    three_nodes.produce("tides", [f"everywhere {number}" for number in range(100)], 1)
    wait_until(lambda: are_equal(three_nodes, 100))
    leader = three_nodes.partition("tides").leader

    def append_without_notification(node: BrokerNode) -> None:
        """Append records while followers wait for records, without notifying the followers."""
        partition = node.services.replicas.partition(T0)
        for number in range(20):
            partition.log.append_as_leader(batch([f"lost {number}"]), partition.leader_epoch, NOW_MS)

    three_nodes.cluster.run(append_without_notification, leader)
    three_nodes.cluster.kill_node(leader)
    three_nodes.wait_for_leader_other_than("tides", leader)
    three_nodes.produce("tides", ["instead"], 1)
    three_nodes.cluster.start_node(leader)
    three_nodes.wait_until_whole("tides")
    wait_until(lambda: are_equal(three_nodes, 101) or are_equal(three_nodes, 121))
