"""Voters in the log (KIP-853): formatted, added, removed, replaced after the loss of a disk."""

from __future__ import annotations

from uuid import UUID

from tests.support.loops.both_loops import on_both_loops
from tests.support.metadata.images import CLUSTER_ID
from tests.support.nodes.quorum_nodes import DIRECTORY, QuorumNodes, quorum_nodes
from tests.support.waiting import eventually
from tidelog.broker.metadata.formatting import InitialVoter
from tidelog.broker.raft.snapshot_format import read_snapshot
from tidelog.broker.raft.state_file import QuorumStateFile
from tidelog.clients.transport.api_versions import negotiation_request
from tidelog.cluster.quorum.voter_set import VoterSet
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from tidelog.protocol.messages.api_versions import ApiVersionsResponse
from tidelog.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    RequestPartitionData,
    RequestTopicData,
    ResponsePartitionData,
)
from tidelog.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from tidelog.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from tidelog.storage.directories.meta_properties import MetaPropertiesFile

IDS = {node_id: UUID(int=5000 + node_id) for node_id in (1, 2, 3)}


def initial(nodes: QuorumNodes, *ids: int) -> tuple[InitialVoter, ...]:
    return tuple(InitialVoter(each, "127.0.0.1", nodes.ports[each], IDS[each]) for each in ids)


def directory_id(nodes: QuorumNodes, node_id: int) -> UUID:
    properties = MetaPropertiesFile(nodes.disks[node_id], DIRECTORY).read().directory_id
    assert properties is not None
    return properties


TEMPORARY = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER})
"""The leader has changed, or received no fetch of the other node in time: the machine is busy."""


async def add_voter(nodes: QuorumNodes, node_id: int) -> int:
    """Return the error code of the last attempt; a repeated one may find that the first had succeeded."""
    request = AddRaftVoterRequest(
        cluster_id=CLUSTER_ID,
        timeout_ms=20_000,
        voter_id=node_id,
        voter_directory_id=directory_id(nodes, node_id),
        listeners=(Listener(name="CONTROLLER", host="127.0.0.1", port=nodes.ports[node_id]),),
    )
    code = (await nodes.send_request(await nodes.wait_for_leader(), request, AddRaftVoterResponse)).error_code
    if code not in TEMPORARY:
        return code
    repeated = await add_voter(nodes, node_id)
    return ErrorCode.NONE if repeated == ErrorCode.DUPLICATE_VOTER else repeated


async def remove_voter(nodes: QuorumNodes, node_id: int) -> int:
    request = RemoveRaftVoterRequest(
        cluster_id=CLUSTER_ID, voter_id=node_id, voter_directory_id=directory_id(nodes, node_id)
    )
    code = (
        await nodes.send_request(await nodes.wait_for_leader(), request, RemoveRaftVoterResponse)
    ).error_code
    if code not in TEMPORARY:
        return code
    repeated = await remove_voter(nodes, node_id)
    return ErrorCode.NONE if repeated == ErrorCode.VOTER_NOT_FOUND else repeated


async def describe_quorum(nodes: QuorumNodes) -> ResponsePartitionData:
    topic = RequestTopicData(topic_name="__cluster_metadata", partitions=(RequestPartitionData(),))
    request = DescribeQuorumRequest(topics=(topic,))
    response = await nodes.send_request(await nodes.wait_for_leader(), request, DescribeQuorumResponse)
    return response.topics[0].partitions[0]


@on_both_loops
async def test_three_nodes_formatted_as_voters_are_a_quorum() -> None:
    async with quorum_nodes(static=False) as nodes:
        for each in (1, 2, 3):
            nodes.format(each, initial(nodes, 1, 2, 3))
        await nodes.start()
        await nodes.set("a", "1")
        await nodes.all_have("a", "1")
        assert nodes.quorum(1).kraft_version == 1
        partition = await describe_quorum(nodes)
        assert {voter.replica_id: voter.replica_directory_id for voter in partition.current_voters} == IDS
        record = QuorumStateFile(nodes.disks[1], f"{DIRECTORY}/__cluster_metadata-0").read()
        assert record is not None
        assert b'"data_version":1' in nodes.disks[1].read(f"{DIRECTORY}/__cluster_metadata-0/quorum-state")


@on_both_loops
async def test_a_quorum_of_one_grows_to_three_and_loses_its_first_voter() -> None:
    async with quorum_nodes(static=False) as nodes:
        nodes.format(1, initial(nodes, 1))
        for each in (2, 3):
            nodes.format(each)
        await nodes.start()
        await nodes.set("a", "1")
        await nodes.all_have("a", "1")
        for each in (2, 3):
            assert await add_voter(nodes, each) == ErrorCode.NONE
            await eventually(lambda each=each: nodes.quorum(each).is_voter)  # type: ignore[misc]
        assert await add_voter(nodes, 3) == ErrorCode.DUPLICATE_VOTER
        assert nodes.quorum(1).voter_ids == (1, 2, 3)
        assert await remove_voter(nodes, 1) == ErrorCode.NONE
        await eventually(lambda: nodes.leader in (2, 3))
        await nodes.stop(1)
        await nodes.set("a", "2")
        await nodes.all_have("a", "2")
        assert nodes.quorum(2).voter_ids == (2, 3)
        for each in list(nodes.running):
            await nodes.crash(each)
        await nodes.start(2, 3)
        await nodes.set("a", "3")
        assert nodes.quorum(2).voter_ids == (2, 3)


@on_both_loops
async def test_a_voter_with_an_empty_disk_is_an_observer_until_it_replaces_the_voter() -> None:
    async with quorum_nodes(static=False) as nodes:
        for each in (1, 2, 3):
            nodes.format(each, initial(nodes, 1, 2, 3))
        await nodes.start()
        leader = await nodes.wait_for_leader()
        lost = next(each for each in nodes.running if each != leader)
        former = directory_id(nodes, lost)
        await nodes.crash(lost)
        nodes.lose_disk(lost)
        nodes.format(lost)
        await nodes.start(lost)
        await nodes.set("a", "1")
        await nodes.all_have("a", "1")
        assert directory_id(nodes, lost) != former
        assert not nodes.quorum(lost).is_voter
        request = RemoveRaftVoterRequest(cluster_id=CLUSTER_ID, voter_id=lost, voter_directory_id=former)
        response = await nodes.send_request(await nodes.wait_for_leader(), request, RemoveRaftVoterResponse)
        assert response.error_code == ErrorCode.NONE
        assert await add_voter(nodes, lost) == ErrorCode.NONE
        await eventually(lambda: nodes.quorum(lost).is_voter)


async def update_kraft_version(
    nodes: QuorumNodes, level: int, *, validate_only: bool = False, transaction_version: int | None = None
) -> UpdateFeaturesResponse:
    updates = [FeatureUpdateKey(feature="kraft.version", max_version_level=level)]
    if transaction_version is not None:
        updates.append(FeatureUpdateKey(feature="transaction.version", max_version_level=transaction_version))
    request = UpdateFeaturesRequest(feature_updates=tuple(updates), validate_only=validate_only)
    return await nodes.send_request(await nodes.wait_for_leader(), request, UpdateFeaturesResponse)


async def reported_kraft_version(nodes: QuorumNodes, node_id: int) -> int:
    """Return the finalized level in ApiVersions of a controller, 0 if there is none."""
    response = await nodes.send_request(node_id, negotiation_request(), ApiVersionsResponse)
    return {each.name: each.max_version_level for each in response.finalized_features}.get("kraft.version", 0)


@on_both_loops
async def test_static_voters_become_dynamic_by_the_feature() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start()
        await nodes.set("a", "1")
        await nodes.all_have("a", "1")
        assert await remove_voter(nodes, 3) == ErrorCode.UNSUPPORTED_VERSION
        # The leader knows the directory id of a follower after its first fetch.
        await eventually(lambda: nodes.store(nodes.leader or 1).image.controllers.keys() == {1, 2, 3})
        checked = await update_kraft_version(nodes, 1, validate_only=True)
        assert checked.error_code == ErrorCode.NONE, checked.error_message
        assert nodes.quorum(1).kraft_version == 0
        response = await update_kraft_version(nodes, 1)
        assert response.error_code == ErrorCode.NONE, response.error_message
        leader = await nodes.wait_for_leader()
        log = nodes.running[leader].raft.log
        assert nodes.quorum(leader).voters_at(log.high_watermark)[0] == 1
        assert await reported_kraft_version(nodes, leader) == 1
        await nodes.set("a", "2")
        await nodes.all_have("a", "2")
        partition = await describe_quorum(nodes)
        ids = {voter.replica_id: voter.replica_directory_id for voter in partition.current_voters}
        assert ids == {each: directory_id(nodes, each) for each in (1, 2, 3)}
        assert (await update_kraft_version(nodes, 1)).error_code == ErrorCode.NONE
        other = next(each for each in (1, 2, 3) if each != leader)
        assert await remove_voter(nodes, other) == ErrorCode.NONE
        for each in list(nodes.running):
            await nodes.crash(each)
        await nodes.start()
        await nodes.set("a", "3")
        await nodes.all_have("a", "3")
        assert set(nodes.quorum(leader).voter_ids) == {1, 2, 3} - {other}


@on_both_loops
async def test_dynamic_voters_never_become_static() -> None:
    async with quorum_nodes(1, static=False) as nodes:
        nodes.format(1, initial(nodes, 1))
        await nodes.start()
        await nodes.wait_for_leader()
        assert await reported_kraft_version(nodes, 1) == 1
        update = FeatureUpdateKey(feature="kraft.version", max_version_level=0, upgrade_type=3)
        request = UpdateFeaturesRequest(feature_updates=(update,))
        response = await nodes.send_request(1, request, UpdateFeaturesResponse)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "static" in (response.error_message or "")
        assert nodes.quorum(1).kraft_version == 1


@on_both_loops
async def test_voters_stay_static_while_one_has_never_fetched() -> None:
    async with quorum_nodes() as nodes:
        await nodes.start(1, 2)
        await nodes.set("a", "1")
        await nodes.all_have("a", "1")
        response = await update_kraft_version(nodes, 1, transaction_version=0)
        assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
        refused = await update_kraft_version(nodes, 1)
        assert refused.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert "[3]" in (refused.error_message or "")
        assert nodes.quorum(1).kraft_version == 0
        assert nodes.store(1).image.features["transaction.version"] == 2


@on_both_loops
async def test_snapshots_contain_the_voters() -> None:
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1000"}
    async with quorum_nodes(1, static=False, settings=settings) as nodes:
        nodes.format(1, initial(nodes, 1))
        await nodes.start()
        for number in range(30):
            await nodes.set("a", str(number))
        log = nodes.running[1].raft.log
        await eventually(lambda: (log.latest_snapshot() or (0, 0))[0] > 0)
        latest = log.latest_snapshot()
        assert latest is not None
        snapshot = read_snapshot("", log.snapshots.read_all(latest))
        assert snapshot.head.kraft_version == 1
        assert snapshot.head.voters is not None
        assert VoterSet.from_record(snapshot.head.voters).by_id[1].key.directory_id == IDS[1]
        assert snapshot.head.last_contained_log_timestamp > 1_700_000_000_000
        await nodes.crash(1)
        await nodes.start(1)
        await nodes.set("b", "1")
        assert nodes.quorum(1).voter_ids == (1,)
