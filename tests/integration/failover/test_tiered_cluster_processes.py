"""The scenarios of KIP-405 with three processes: a new follower, a stopped one, an unclean election."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.foreign_clients import CLIENTS
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.nodes.killed_cluster import TIMEOUT_S, CrashingCluster
from tests.support.tier.audit import Written
from tests.support.tier.tiered_topics import SEGMENT_BYTES
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, ElectionType
from tidelog.protocol.ids import TopicPartition

READERS = (CLIENTS["confluent"], CLIENTS["aiokafka"])


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[CrashingCluster]:
    with tempfile.TemporaryDirectory(prefix="tidelog-processes-") as folder:
        cluster = CrashingCluster(Path(folder), 3)
        try:
            yield cluster
        finally:
            cluster.stop()


def require_read_by_all(cluster: CrashingCluster, written: Written) -> None:
    """Read acknowledged records from the log start with third-party clients, byte by byte and in order."""
    borders = cluster.audit.borders(written.topic)
    borders.require_order()
    expected = [(offset, written.values.get(offset)) for offset in range(borders.log_start, borders.end)]
    client_factory = ClientFactory(cluster.cluster.bootstrap_servers)
    try:
        for client in READERS:
            received = client_factory.consume(client, written.topic, len(expected), {0: borders.log_start})
            assert [(each.offset, each.value) for each in received] == expected, client.name
    finally:
        client_factory.close()


def lead(cluster: CrashingCluster, topic: str, node_id: int, others: Iterable[int] | None = None) -> None:
    """Make a replica the preferred one, so that it is elected, and wait until it is the leader."""
    name = TopicPartition(topic, 0)
    others = cluster.cluster.nodes if others is None else others
    order = [node_id, *(each for each in others if each != node_id)]

    async def elect() -> None:
        async with Admin(cluster.cluster.bootstrap_servers) as admin:
            assert (await admin.alter_partition_reassignments({name: order}))[name] is None
            await admin.elect_leaders(ElectionType.PREFERRED, [name])

    asyncio.run(elect())
    wait_until(lambda: cluster.leader(topic) == node_id, f"leader {node_id}", timeout_s=TIMEOUT_S)


def follower_of(cluster: CrashingCluster, topic: str) -> int:
    """Return one of the two nodes that are not the leader."""
    return next(node_id for node_id in cluster.cluster.nodes if node_id != cluster.leader(topic))


def local_bytes(cluster: CrashingCluster, topic: str, node_id: int) -> int:
    """Return the size of a replica's log files."""
    folder = cluster.cluster.layout.data_folder(node_id) / f"{topic}-0"
    return sum(path.stat().st_size for path in folder.glob("*.log"))


def test_a_new_follower_joins_without_copying_history_and_leads(three_nodes: CrashingCluster) -> None:
    written = three_nodes.create("new-follower")
    three_nodes.produce(written, 6.5)
    three_nodes.settle(written)
    node_id = follower_of(three_nodes, written.topic)
    three_nodes.cluster.kill(node_id)
    three_nodes.empty(written.topic, node_id)
    three_nodes.start(node_id)
    three_nodes.wait_until_whole(written.topic)
    assert local_bytes(three_nodes, written.topic, node_id) <= SEGMENT_BYTES
    lead(three_nodes, written.topic, node_id)
    three_nodes.produce(written, 2.5)
    three_nodes.settle(written)
    require_read_by_all(three_nodes, written)


@pytest.mark.parametrize("is_deleted_locally", [False, True], ids=["before", "after"])
def test_a_stopped_follower_returns_before_and_after_local_deletion(
    is_deleted_locally: bool, three_nodes: CrashingCluster
) -> None:
    keeps = {} if is_deleted_locally else {"local_retention_bytes": "-1"}
    written = three_nodes.create(f"out-of-sync-{is_deleted_locally}".lower(), **keeps)
    three_nodes.produce(written, 2.5)
    node_id = follower_of(three_nodes, written.topic)
    three_nodes.cluster.kill(node_id)
    three_nodes.produce(written, 4)
    if is_deleted_locally:
        three_nodes.settle(written)
    three_nodes.start(node_id)
    three_nodes.wait_until_whole(written.topic)
    lead(three_nodes, written.topic, node_id)
    three_nodes.alter(written.topic, local_retention_bytes="1")
    three_nodes.produce(written, 2)
    three_nodes.settle(written)
    require_read_by_all(three_nodes, written)


def test_an_unclean_leader_truncates_the_log_and_the_tier_diverges(three_nodes: CrashingCluster) -> None:
    """L copies records that only it has; F becomes leader uncleanly and writes others; L returns."""
    written = three_nodes.create("unclean", unclean_leader_election_enable="true", min_insync_replicas="1")
    three_nodes.produce(written, 2.5)
    three_nodes.settle(written)
    shared = three_nodes.audit.borders(written.topic).end
    former = three_nodes.leader(written.topic)
    others = [node_id for node_id in three_nodes.cluster.nodes if node_id != former]
    stale = others[0]
    # The third node is needed for the quorum, and for the metadata of remote segments.
    move_to(three_nodes, written.topic, [former, stale])
    three_nodes.cluster.kill(stale)
    lost = Written(written.topic, dict(written.values), era=1)
    three_nodes.produce(lost, 3)
    three_nodes.settle(lost)
    three_nodes.cluster.kill(former)
    three_nodes.start(stale)
    wait_until(
        lambda: three_nodes.leader(written.topic) == stale, f"unclean leader {stale}", timeout_s=TIMEOUT_S
    )
    assert three_nodes.audit.borders(written.topic).end == shared
    three_nodes.produce(written, 3)
    three_nodes.start(former)
    wait_until(
        lambda: three_nodes.describe(written.topic)[1] == 2, "both replicas in sync", timeout_s=TIMEOUT_S
    )
    require_read_by_all(three_nodes, written)
    lead(three_nodes, written.topic, former, [stale])
    three_nodes.produce(written, 2)
    require_read_by_all(three_nodes, written)


def move_to(cluster: CrashingCluster, topic: str, replicas: list[int]) -> None:
    """Assign these replicas to the partition."""
    name = TopicPartition(topic, 0)

    async def move() -> None:
        async with Admin(cluster.cluster.bootstrap_servers) as admin:
            assert (await admin.alter_partition_reassignments({name: replicas}))[name] is None

    asyncio.run(move())
    wait_until(
        lambda: cluster.describe(topic) == (replicas[0], len(replicas)),
        f"{topic} moved",
        timeout_s=TIMEOUT_S,
    )
