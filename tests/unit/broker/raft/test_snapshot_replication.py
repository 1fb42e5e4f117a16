"""Snapshots: every node writes them and deletes its log below; a node that is too far behind fetches one."""

from __future__ import annotations

from tests.support.loops.both_loops import on_both_loops
from tests.support.nodes.quorum_nodes import QuorumNodes, quorum_nodes
from tests.support.waiting import eventually
from tidelog.cluster.quorum.log import SnapshotId

# A snapshot every few dozen records, and only the newest is kept.
SMALL = {
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "internal.metadata.log.segment.bytes": "2048",
    "metadata.max.retention.bytes": "1000",
}


async def write_many(nodes: QuorumNodes, count: int, *, keys: int = 20) -> None:
    for number in range(count):
        await nodes.set(f"key-{number % keys}", f"value {number}")


def start_offset(nodes: QuorumNodes, node_id: int) -> int:
    return nodes.running[node_id].raft.log.start_offset


def snapshot(nodes: QuorumNodes, node_id: int) -> SnapshotId | None:
    return nodes.running[node_id].raft.log.latest_snapshot()


@on_both_loops
async def test_every_node_writes_snapshots_and_cleans_its_log() -> None:
    async with quorum_nodes(settings=SMALL) as nodes:
        await nodes.start()
        await write_many(nodes, 200)
        await eventually(lambda: all(start_offset(nodes, each) > 0 for each in nodes.running))
        for each in nodes.running:
            assert snapshot(nodes, each) is not None
        await nodes.all_have("key-19", "value 199")


@on_both_loops
async def test_a_node_starts_from_its_snapshot() -> None:
    async with quorum_nodes(settings=SMALL) as nodes:
        await nodes.start()
        await write_many(nodes, 200)
        await eventually(lambda: all(start_offset(nodes, each) > 0 for each in nodes.running))
        for each in list(nodes.running):
            await nodes.crash(each)
        await nodes.start()
        await nodes.set("last", "1")
        for number in range(180, 200):
            await nodes.all_have(f"key-{number % 20}", f"value {number}")


@on_both_loops
async def test_a_node_stopped_for_a_long_time_fetches_a_snapshot() -> None:
    async with quorum_nodes(settings=SMALL) as nodes:
        await nodes.start()
        leader = await nodes.wait_for_leader()
        await nodes.set("early", "1")
        away = next(each for each in nodes.running if each != leader)
        await nodes.all_have("early", "1")
        end_offset = nodes.running[away].raft.log.end_offset
        await nodes.crash(away)
        await write_many(nodes, 200)
        await eventually(lambda: all(start_offset(nodes, each) > end_offset for each in nodes.running))
        await nodes.start(away)
        await nodes.all_have("early", "1")
        for number in range(180, 200):
            await nodes.all_have(f"key-{number % 20}", f"value {number}")
        assert start_offset(nodes, away) > end_offset
        leader = await nodes.wait_for_leader()
        expected = nodes.store(leader).image
        image = nodes.store(away).image
        assert (image.configs, image.features) == (expected.configs, expected.features)
        await nodes.crash(away)
        await nodes.start(away)
        await nodes.set("early", "2")
        await nodes.all_have("early", "2")


@on_both_loops
async def test_an_empty_replacement_node_fetches_a_snapshot() -> None:
    async with quorum_nodes(settings=SMALL) as nodes:
        await nodes.start()
        leader = await nodes.wait_for_leader()
        lost = next(each for each in nodes.running if each != leader)
        await nodes.crash(lost)
        await write_many(nodes, 100)
        await eventually(lambda: all(start_offset(nodes, each) > 0 for each in nodes.running))
        nodes.lose_disk(lost)
        await nodes.start(lost)
        await nodes.all_have("key-19", "value 99")
