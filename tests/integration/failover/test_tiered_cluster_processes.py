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
def three() -> Iterator[CrashingCluster]:
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
    opened = ClientFactory(cluster.cluster.bootstrap_servers)
    try:
        for client in READERS:
            received = opened.consume(client, written.topic, len(expected), {0: borders.log_start})
            assert [(each.offset, each.value) for each in received] == expected, client.name
    finally:
        opened.close()


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


def test_a_new_follower_joins_without_copying_history_and_leads(three: CrashingCluster) -> None:
    written = three.create("new-follower")
    three.produce(written, 6.5)
    three.settle(written)
    node_id = follower_of(three, written.topic)
    three.cluster.kill(node_id)
    three.empty(written.topic, node_id)
    three.start(node_id)
    three.wait_until_whole(written.topic)
    assert local_bytes(three, written.topic, node_id) <= SEGMENT_BYTES
    lead(three, written.topic, node_id)
    three.produce(written, 2.5)
    three.settle(written)
    require_read_by_all(three, written)


@pytest.mark.parametrize("is_deleted_locally", [False, True], ids=["before", "after"])
def test_a_stopped_follower_returns_before_and_after_local_deletion(
    is_deleted_locally: bool, three: CrashingCluster
) -> None:
    keeps = {} if is_deleted_locally else {"local_retention_bytes": "-1"}
    written = three.create(f"out-of-sync-{is_deleted_locally}".lower(), **keeps)
    three.produce(written, 2.5)
    node_id = follower_of(three, written.topic)
    three.cluster.kill(node_id)
    three.produce(written, 4)
    if is_deleted_locally:
        three.settle(written)
    three.start(node_id)
    three.wait_until_whole(written.topic)
    lead(three, written.topic, node_id)
    three.alter(written.topic, local_retention_bytes="1")
    three.produce(written, 2)
    three.settle(written)
    require_read_by_all(three, written)


def test_an_unclean_leader_truncates_the_log_and_the_tier_diverges(three: CrashingCluster) -> None:
    """L copies records that only it has; F becomes leader uncleanly and writes others; L returns."""
    written = three.create("unclean", unclean_leader_election_enable="true", min_insync_replicas="1")
    three.produce(written, 2.5)
    three.settle(written)
    shared = three.audit.borders(written.topic).end
    former = three.leader(written.topic)
    others = [node_id for node_id in three.cluster.nodes if node_id != former]
    stale = others[0]
    # The third node is needed for the quorum, and for the metadata of remote segments.
    move_to(three, written.topic, [former, stale])
    three.cluster.kill(stale)
    lost = Written(written.topic, dict(written.values), era=1)
    three.produce(lost, 3)
    three.settle(lost)
    three.cluster.kill(former)
    three.start(stale)
    wait_until(lambda: three.leader(written.topic) == stale, f"unclean leader {stale}", timeout_s=TIMEOUT_S)
    assert three.audit.borders(written.topic).end == shared
    three.produce(written, 3)
    three.start(former)
    wait_until(lambda: three.described(written.topic)[1] == 2, "both replicas in sync", timeout_s=TIMEOUT_S)
    require_read_by_all(three, written)
    lead(three, written.topic, former, [stale])
    three.produce(written, 2)
    require_read_by_all(three, written)


def move_to(cluster: CrashingCluster, topic: str, replicas: list[int]) -> None:
    """Assign these replicas to the partition."""
    name = TopicPartition(topic, 0)

    async def move() -> None:
        async with Admin(cluster.cluster.bootstrap_servers) as admin:
            assert (await admin.alter_partition_reassignments({name: replicas}))[name] is None

    asyncio.run(move())
    wait_until(
        lambda: cluster.described(topic) == (replicas[0], len(replicas)),
        f"{topic} moved",
        timeout_s=TIMEOUT_S,
    )
