"""Consume, transform and produce with our clients while nodes are killed: each record once, in order."""

from __future__ import annotations

import asyncio

from tests.harness.soak.copies import PARTITIONS, SOURCE, TARGET, Copies
from tests.support.nodes.three_nodes import ThreeNodes
from tidelog.local_cluster.client_settings import ClientSettings

RECORDS = 900
DEADLINE_S = 60.0


async def kill_each_once(three_nodes: ThreeNodes) -> None:
    """Kill one node after the other, each after the previous one has returned.

    The sleeps are load: records are copied before each failure and while a node is down.
    """
    for node_id in (1, 2, 3):
        await asyncio.sleep(0.7)
        await asyncio.to_thread(three_nodes.cluster.kill_node, node_id)
        await asyncio.sleep(0.7)
        await asyncio.to_thread(three_nodes.cluster.start_node, node_id)
        await asyncio.to_thread(three_nodes.wait_until_whole, TARGET)


def test_a_topic_is_copied_exactly_once_while_nodes_are_killed(three_nodes: ThreeNodes) -> None:
    for topic in (SOURCE, TARGET):
        three_nodes.create_topic(topic, PARTITIONS, min_insync_replicas="2")

    async def run() -> list[str]:
        copies = Copies(
            ClientSettings(bootstrap_servers=three_nodes.servers),
            RECORDS,
            at_a_time=1,
            pause_s=0.025,
            records_per_transaction=10,
        )
        return await copies.run_during(kill_each_once(three_nodes), DEADLINE_S)

    assert asyncio.run(run()) == []
