"""The group APIs in every version, through their handlers and the codec."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.support.groups.group_handlers import (
    OFFSETS_ID,
    TOPIC_ID,
    GroupBroker,
    commit_request,
    fetch_request,
    join,
    join_request,
    topic,
)
from tests.support.loops.yields import loop_iterations
from tests.support.metadata.images import broker_registration_record, image_after_records
from tidelog.broker.security.authorization.supported_operations import supported_bits
from tidelog.protocol.access_control import AclResourceType
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.messages.list_groups import ListGroupsRequest
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment


@pytest.fixture
async def broker() -> AsyncIterator[GroupBroker]:
    broker = GroupBroker()
    await loop_iterations(20)
    assert broker.service._shards.active_shards()
    yield broker
    await broker.service.stop()


@pytest.mark.parametrize("version", range(10))
async def test_a_group_is_formed_in_every_version_of_join_group(broker: GroupBroker, version: int) -> None:
    response = await join(broker, version)
    assert (response.generation_id, response.protocol_name, response.leader) == (
        1,
        "range",
        response.member_id,
    )
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    assert [member.metadata for member in response.members] == [b"m"]
    group = broker.service._shards.active_shards()[0].coordinator._groups.get("g")
    assert group is not None
    member = group.members[response.member_id]
    assert member.rebalance_timeout_ms == (10_000 if version == 0 else 20_000)
    assert member.client == ("me", "/10.0.0.1")


@pytest.mark.parametrize("version", range(10))
async def test_a_refused_join_has_a_protocol_name_that_the_version_can_express(
    broker: GroupBroker, version: int
) -> None:
    response = await broker.send_request(replace(join_request(version), session_timeout_ms=1), version)
    assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert response.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(5, 10))
async def test_a_fenced_join_can_be_expressed_in_every_version(broker: GroupBroker, version: int) -> None:
    request = join_request(version, instance="i")
    first, second = (asyncio.ensure_future(broker.send_request(request, version)) for _ in range(2))
    for _ in range(5):
        await asyncio.sleep(0)
        broker.time.pass_time(1)
    response = await first
    assert response.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert response.protocol_name == (None if version >= 7 else "")
    assert (await second).error_code == 0


@pytest.mark.parametrize("version", range(6))
async def test_the_assignment_is_returned_in_every_version_of_sync_group(
    broker: GroupBroker, version: int
) -> None:
    member_id = (await join(broker, 3)).member_id
    request = SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(SyncGroupRequestAssignment(member_id=member_id, assignment=b"all"),),
    )
    response = await broker.send_request(request, version)
    assert (response.error_code, response.assignment) == (0, b"all")
    assert response.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("version", range(5))
async def test_heartbeats_get_a_response_in_every_version(broker: GroupBroker, version: int) -> None:
    member_id = (await join(broker, 3)).member_id
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert (await broker.send_request(request, version)).error_code == 0
    assert (await broker.send_request(replace(request, generation_id=2), version)).error_code == (
        ErrorCode.ILLEGAL_GENERATION
    )


@pytest.mark.parametrize("version", range(6))
async def test_members_leave_in_every_version(broker: GroupBroker, version: int) -> None:
    member_id = (await join(broker, 3)).member_id
    if version < 3:
        request = LeaveGroupRequest(group_id="g", member_id=member_id)
    else:
        request = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=member_id),))
    response = await broker.send_request(request, version)
    assert response.error_code == 0
    assert [member.error_code for member in response.members] == ([] if version < 3 else [0])


@pytest.mark.parametrize("version", range(1, 11))
async def test_a_group_of_another_coordinator_is_refused_in_the_field_of_the_version(
    broker: GroupBroker, version: int
) -> None:
    broker.service.on_resignation(0)
    response = await broker.send_request(fetch_request(version), version)
    expected = ErrorCode.NOT_COORDINATOR
    if version == 1:
        assert [p.error_code for p in response.topics[0].partitions] == [expected, expected]
    elif version < 8:
        assert (response.error_code, response.topics) == (expected, ())
    else:
        assert [group.error_code for group in response.groups] == [expected, expected]


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_in_every_version(broker: GroupBroker, version: int) -> None:
    await join(broker, 3)
    request = ListGroupsRequest(
        states_filter=("completingrebalance",) if version >= 4 else (),
        types_filter=("classic",) if version >= 5 else (),
    )
    (group,) = (await broker.send_request(request, version)).groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    assert group.group_state == ("CompletingRebalance" if version >= 4 else "")
    assert group.group_type == ("classic" if version >= 5 else "")


@pytest.mark.parametrize("version", range(7))
async def test_groups_are_described_in_every_version(broker: GroupBroker, version: int) -> None:
    await join(broker, 3)
    request = DescribeGroupsRequest(groups=("g", "u", "g"), include_authorized_operations=version >= 3)
    described_group, unknown_group = (await broker.send_request(request, version)).groups
    assert [member.client_host for member in described_group.members] == ["/10.0.0.1"]
    assert unknown_group.group_state == "Dead"
    assert unknown_group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    assert described_group.authorized_operations == (
        supported_bits(AclResourceType.GROUP) if version >= 3 else -(2**31)
    )


@pytest.mark.parametrize("version", range(3))
async def test_groups_are_deleted_in_every_version(broker: GroupBroker, version: int) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    response = await broker.send_request(DeleteGroupsRequest(groups_names=("g", "u", "g")), version)
    assert [(result.group_id, result.error_code) for result in response.results] == [
        ("g", 0),
        ("u", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def find_request(version: int, key_type: int = 0) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key="g", key_type=key_type if version >= 1 else 0)
    return FindCoordinatorRequest(coordinator_keys=("g", "h", "g"), key_type=key_type)


@pytest.mark.parametrize("version", range(7))
async def test_find_coordinator_creates_the_offsets_topic(broker: GroupBroker, version: int) -> None:
    response = await broker.send_request(find_request(version), version)
    first = response if version < 4 else response.coordinators[0]
    assert (first.error_code, first.node_id, first.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
    assert broker.created[0] == "__consumer_offsets"
    broker.image = image_after_records(topic("__consumer_offsets", OFFSETS_ID, 50), broker.image)
    response = await broker.send_request(find_request(version), version)
    coordinators = [response] if version < 4 else response.coordinators
    assert [(c.error_code, c.node_id, c.host, c.port) for c in coordinators] == [(0, 1, "host1", 9093)] * len(
        coordinators
    )
    if version >= 4:
        assert [c.key for c in response.coordinators] == ["g", "h"]
    elif version >= 1:
        assert response.error_message == "NONE"


async def test_a_partition_without_live_leader_has_no_coordinator(broker: GroupBroker) -> None:
    broker.image = image_after_records(topic("__consumer_offsets", OFFSETS_ID, 50, leader=-1), broker.image)
    response = await broker.send_request(find_request(4), 4)
    assert {c.error_code for c in response.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    fenced = broker_registration_record(1, fenced=True)
    broker.image = image_after_records([fenced, *topic("__consumer_offsets", OFFSETS_ID, 50)])
    response = await broker.send_request(find_request(3), 3)
    assert response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(("version", "key_type"), [(5, 2), (6, 2), (4, 1), (3, 1), (4, 9)])
async def test_key_types_without_a_coordinator_are_invalid(
    broker: GroupBroker, version: int, key_type: int
) -> None:
    response = await broker.send_request(find_request(version, key_type), version)
    first = response if version < 4 else response.coordinators[0]
    assert first.error_code == ErrorCode.INVALID_REQUEST
    assert broker.created == []
