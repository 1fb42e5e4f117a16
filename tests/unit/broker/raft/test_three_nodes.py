"""A quorum of three nodes over real sockets: elections, commits, lost and restarted nodes."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.nodes.quorum_nodes import DIRECTORY, quorum_nodes
from tests.support.waiting import eventually, remains
from tidelog.broker.raft.state_file import QuorumStateFile
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.quorum.states import State
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RequestPartitionSnapshot,
    RequestTopicSnapshot,
)
from tidelog.protocol.messages.vote import VoteRequest, VoteResponse
from tidelog.protocol.metadata_records.no_op_record import NoOpRecord


def touch(image: MetadataImage) -> ControllerResult[None]:
    return ControllerResult((NoOpRecord(),), None)


@on_both_loops
async def test_three_nodes_elect_a_leader_and_commit() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start()
        leader = await nodes.wait_for_leader()
        await nodes.set("a", "1")
        await nodes.all_have("a", "1")
        assert nodes.store(leader).image.features["metadata.version"] == 30
        states = sorted(nodes.quorum(each).state.value for each in nodes.running)
        assert states == [State.FOLLOWER.value, State.FOLLOWER.value, State.LEADER.value]
        follower = next(each for each in nodes.running if each != leader)
        with pytest.raises(KafkaError) as error:
            await nodes.store(follower).submit(lambda image: pytest.fail("not here"))
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        logs = [nodes.running[each].raft.log for each in nodes.running]
        # Above that an idle controller may have written records that the others have not fetched yet.
        committed = min(log.high_watermark for log in logs)
        assert len({bytes(log.read(0, 1 << 20, committed)) for log in logs}) == 1


@on_both_loops
async def test_a_leader_that_stops_resigns_and_returns_as_a_follower() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start()
        first = await nodes.wait_for_leader()
        await nodes.set("a", "1")
        epoch = nodes.store(first).leadership.epoch
        await nodes.stop(first)
        second = await nodes.wait_for_leader()
        assert second != first
        await nodes.set("a", "2")
        await nodes.start(first)
        await nodes.all_have("a", "2")
        assert await nodes.wait_for_leader() == second
        assert nodes.store(second).leadership.epoch == epoch + 1


@on_both_loops
async def test_a_power_failure_of_the_leader_loses_no_committed_record() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start()
        for number in range(3):
            leader = await nodes.wait_for_leader()
            await nodes.set("a", str(number))
            await nodes.crash(leader)
            await nodes.set("b", str(number))
            await nodes.start(leader)
            await nodes.all_have("a", str(number))
            await nodes.all_have("b", str(number))


@on_both_loops
async def test_without_a_majority_nothing_is_committed() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start()
        leader = await nodes.wait_for_leader()
        others = [each for each in nodes.running if each != leader]
        await nodes.set("a", "1")
        for each in others:
            await nodes.crash(each)
        waiting = asyncio.create_task(nodes.set("a", "2"))
        await eventually(lambda: nodes.store(leader).active_epoch is None)
        assert nodes.value(leader, "a") == "1"
        assert not waiting.done()
        await nodes.start(others[0])
        await waiting
        await nodes.all_have("a", "2")


@on_both_loops
async def test_all_nodes_restart_and_continue() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start()
        await nodes.set("a", "1")
        await nodes.all_have("a", "1")
        epoch = nodes.store(1).leadership.epoch
        for each in list(nodes.running):
            await nodes.crash(each)
        await nodes.start()
        await nodes.set("b", "1")
        await nodes.all_have("a", "1")
        assert nodes.store(1).leadership.epoch > epoch
        record = QuorumStateFile(nodes.disks[1], f"{DIRECTORY}/__cluster_metadata-0").read()
        assert record is not None and record.leader_epoch == nodes.store(1).leadership.epoch


@on_both_loops
async def test_a_node_with_a_failed_disk_stops_and_others_continue() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start()
        leader = await nodes.wait_for_leader()
        nodes.disks[leader].fail_next_fsync("__cluster_metadata-0")
        broken = nodes.running[leader]
        with pytest.raises(KafkaError) as error:
            await nodes.store(leader).submit(touch)
        assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert nodes.failures[leader].event.is_set()
        await broken.abandon()
        del nodes.running[leader]
        await nodes.set("a", "1")


@on_both_loops
async def test_invalid_requests_of_an_unknown_node_do_not_end_the_quorum() -> None:
    nothing = FetchSnapshotRequest()
    no_partition = FetchSnapshotRequest(topics=(RequestTopicSnapshot(name="__cluster_metadata"),))
    odd = RequestPartitionSnapshot(partition=7, position=-1, current_leader_epoch=-5)
    odd_partition = FetchSnapshotRequest(
        topics=(RequestTopicSnapshot(name="__cluster_metadata", partitions=(odd,)),)
    )
    two = FetchSnapshotRequest(topics=no_partition.topics * 2)
    async with quorum_nodes() as nodes:
        await nodes.start()
        leader = await nodes.wait_for_leader()
        for request in (nothing, no_partition, odd_partition, two):
            response = await nodes.send_request(leader, request, FetchSnapshotResponse)
            assert response.error_code == ErrorCode.INVALID_REQUEST or response.topics
        vote = await nodes.send_request(leader, VoteRequest(cluster_id="other"), VoteResponse)
        assert vote.error_code == ErrorCode.INVALID_REQUEST
        await nodes.set("a", "1")
        assert not nodes.failures[leader].event.is_set()


@on_both_loops
async def test_an_active_controller_whose_disk_is_full_resigns() -> None:
    """Otherwise its log would refuse every change, while its responses to fetches prevent an election."""
    async with quorum_nodes() as nodes:
        await nodes.start()
        first = await nodes.wait_for_leader()
        await nodes.set("a", "1")
        nodes.disks[first].free_bytes = 0
        with pytest.raises(KafkaError) as error:
            await nodes.store(first).submit(touch)
        assert error.value.code is ErrorCode.NOT_CONTROLLER
        others = [each for each in nodes.running if each != first]
        await eventually(lambda: any(nodes.store(each).active_epoch is not None for each in others))
        second = next(each for each in others if nodes.store(each).active_epoch is not None)
        await nodes.store(second).submit(touch)
        assert nodes.store(first).active_epoch is None


@on_both_loops
async def test_a_follower_whose_disk_is_full_continues_and_catches_up_when_there_is_room() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start()
        leader = await nodes.wait_for_leader()
        full = next(each for each in nodes.running if each != leader)
        nodes.disks[full].free_bytes = 100
        await nodes.set("a", "x" * 200)
        driver = nodes.running[full].raft.driver
        await remains(lambda: driver.failure is None and nodes.value(full, "a") is None, 0.5)
        nodes.disks[full].free_bytes = None
        await nodes.all_have("a", "x" * 200)


@on_both_loops
async def test_all_nodes_continue_after_full_disks() -> None:
    """Disks fill at the same rate if replicas are spread evenly; the data can still be read."""
    async with quorum_nodes() as nodes:
        await nodes.start()
        leader = await nodes.wait_for_leader()
        await nodes.set("a", "1")
        for disk in nodes.disks.values():
            disk.free_bytes = 0
        with pytest.raises(KafkaError):
            await nodes.store(leader).submit(touch)
        await eventually(lambda: nodes.store(leader).active_epoch is None)
        # Long enough for elections, in which each node writes its vote.
        await remains(lambda: all(node.raft.driver.failure is None for node in nodes.running.values()), 1.0)
        for disk in nodes.disks.values():
            disk.free_bytes = None
        await nodes.set("a", "2")
        await nodes.all_have("a", "2")
