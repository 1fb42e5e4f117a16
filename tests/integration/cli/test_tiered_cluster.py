"""Three nodes with one object store: failures of leaders, empty nodes, restarts, deletion."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.clients.admin.admin import Admin, ElectionType
from tidelog.protocol.ids import TopicPartition
from tidelog.testing.embedded import EmbeddedCluster

NODES = (1, 2, 3)
CONFLUENT, AIOKAFKA, TIDELOG = CLIENTS["confluent"], CLIENTS["aiokafka"], CLIENTS["tidelog"]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[EmbeddedCluster]:
    running = EmbeddedCluster(3, tiered=True, data_dir=tmp_path / "cluster")
    running.start()
    yield running
    running.stop()


def messages(count: int, seed: int) -> list[Message]:
    randomness = random.Random(seed)
    return [Message(b"%d " % number + randomness.randbytes(900)) for number in range(count)]


def values(received: Sequence[Any]) -> list[bytes | None]:
    return [one.value for one in received]


def wait_until_deleted_locally(tiered: TieredTopics, topic: str) -> int:
    """Wait until every running node has only the active segment; return the local log start."""
    border = tiered.wait_until_tiered(topic)
    wait_until(
        lambda: all(
            tiered.border(topic, node_id=node_id).local_start == border.local_start
            for node_id in tiered.cluster.nodes
        )
    )
    return border.local_start


def wait_until_whole(tiered: TieredTopics, topic: str) -> None:
    """Wait until every node is in the ISR."""
    wait_until(
        lambda: (
            set(NODES)
            == set(
                tiered.cluster.run(lambda node: node.services.image().topics_by_name[topic].partitions[0].isr)
            )
        )
    )


def kill_leader(tiered: TieredTopics, topic: str) -> int:
    """Kill the partition's leader, wait for another one, and return the id of the killed node."""
    leader = tiered.leader(topic)
    tiered.cluster.kill_node(leader)
    wait_until(lambda: tiered.leader(topic) not in (leader, -1))
    return leader


def test_a_new_leader_continues_copying_and_reads_earlier_copies(
    tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    tiered.create("tides")
    sent = messages(3000, 1)
    client_factory.produce(CONFLUENT, "tides", sent, idempotent=True)
    first_start = wait_until_deleted_locally(tiered, "tides")
    assert first_start > 0
    killed = kill_leader(tiered, "tides")
    more = messages(3000, 2)
    client_factory.produce(CONFLUENT, "tides", more, idempotent=True)
    assert wait_until_deleted_locally(tiered, "tides") > first_start
    for client in (CONFLUENT, AIOKAFKA, TIDELOG):
        assert values(client_factory.consume(client, "tides", 6000)) == values(sent + more)
    cluster.start_node(killed)
    wait_until_whole(tiered, "tides")


def test_an_empty_node_joins_without_copying_history_and_becomes_leader(
    tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    tiered.create("tides")
    sent = messages(6000, 3)
    client_factory.produce(CONFLUENT, "tides", sent, compression="lz4", idempotent=True)
    local_start = wait_until_deleted_locally(tiered, "tides")
    empty = next(node_id for node_id in NODES if node_id != tiered.leader("tides"))
    cluster.stop_node(empty)
    for name in (cluster.data_dir / f"node-{empty}" / "data").glob("tides-*"):
        shutil.rmtree(name)
    cluster.start_node(empty)
    wait_until_whole(tiered, "tides")
    border = tiered.border("tides", node_id=empty)
    assert (border.log_start, border.log_end) == (0, 6000)
    assert border.local_start >= local_start
    asyncio.run(lead(cluster, "tides", empty))
    wait_until(lambda: tiered.leader("tides") == empty)
    more = messages(3000, 8)
    client_factory.produce(CONFLUENT, "tides", more, idempotent=True)
    wait_until_deleted_locally(tiered, "tides")
    assert values(client_factory.consume(AIOKAFKA, "tides", 9000)) == values(sent + more)


async def lead(cluster: EmbeddedCluster, topic: str, node_id: int) -> None:
    """Make a replica the preferred one, so that it is elected."""
    name = TopicPartition(topic, 0)
    order = [node_id, *(each for each in NODES if each != node_id)]
    async with Admin(cluster.bootstrap_servers) as admin:
        assert (await admin.alter_partition_reassignments({name: order}))[name] is None
        assert (await admin.elect_leaders(ElectionType.PREFERRED, [name]))[name] is None


@pytest.mark.parametrize("clean", [True, False])
def test_a_restart_of_all_nodes_keeps_all_records(
    clean: bool, tiered: TieredTopics, cluster: EmbeddedCluster
) -> None:
    tiered.create("tides")
    opener = ClientFactory(cluster.bootstrap_servers)
    sent = messages(4000, 4)
    opener.produce(CONFLUENT, "tides", sent, idempotent=True)
    before = wait_until_deleted_locally(tiered, "tides")
    opener.close()
    objects = tiered.objects("tides")
    cluster.restart(clean=clean)
    opener = ClientFactory(cluster.bootstrap_servers)
    assert values(opener.consume(CONFLUENT, "tides", 4000)) == values(sent)
    border = tiered.border("tides")
    assert (border.log_start, border.log_end) == (0, 4000)
    assert border.local_start >= before
    more = messages(3000, 5)
    opener.produce(CONFLUENT, "tides", more, idempotent=True)
    wait_until_deleted_locally(tiered, "tides")
    assert set(objects) <= set(tiered.objects("tides"))
    assert values(opener.consume(TIDELOG, "tides", 7000)) == values(sent + more)
    opener.close()


def test_a_topic_deleted_while_a_node_is_stopped_leaves_no_objects(
    tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    tiered.create("tides")
    client_factory.produce(CONFLUENT, "tides", messages(3000, 6), idempotent=True)
    wait_until_deleted_locally(tiered, "tides")
    killed = kill_leader(tiered, "tides")
    tiered.delete("tides")
    wait_until(lambda: not tiered.objects("/tides-"))
    cluster.start_node(killed)
    assert not tiered.objects("/tides-")


def test_retention_moves_the_log_start_on_every_replica(
    tiered: TieredTopics, client_factory: ClientFactory, cluster: EmbeddedCluster
) -> None:
    tiered.create("tides")
    client_factory.produce(CONFLUENT, "tides", messages(6000, 7), idempotent=True)
    wait_until_deleted_locally(tiered, "tides")
    before = tiered.objects("/tides-")
    tiered.alter("tides", {"retention.bytes": "2500000", "local.retention.bytes": "1"})
    wait_until(lambda: len(tiered.objects("/tides-")) < len(before))
    wait_until(lambda: all(tiered.border("tides", node_id=each).log_start > 0 for each in NODES))
    start = tiered.offset("tides", -2)
    assert 0 < start < 6000
    assert len(client_factory.consume(CONFLUENT, "tides", 6000 - start, {0: start})) == 6000 - start
