"""The group APIs in every version, through their handlers and the codec."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.ports import group_ports
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import loop_iterations
from tests.support.metadata.images import LISTENER, broker_registration_record, image_after_records
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tidelog.broker.api.handlers.delete_groups import DeleteGroupsHandler
from tidelog.broker.api.handlers.describe_groups import DescribeGroupsHandler
from tidelog.broker.api.handlers.find_coordinator import (
    CoordinatorTopic,
    CoordinatorType,
    FindCoordinatorHandler,
)
from tidelog.broker.api.handlers.heartbeat import HeartbeatHandler
from tidelog.broker.api.handlers.join_group import JoinGroupHandler
from tidelog.broker.api.handlers.leave_group import LeaveGroupHandler
from tidelog.broker.api.handlers.list_groups import ListGroupsHandler
from tidelog.broker.api.handlers.offset_commit import OffsetCommitHandler
from tidelog.broker.api.handlers.offset_delete import OffsetDeleteHandler
from tidelog.broker.api.handlers.offset_fetch import OffsetFetchHandler
from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.api.handlers.sync_group import SyncGroupHandler
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.shared.partitioning import partition_for
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import Slices
from tidelog.broker.security.authorization.supported_operations import supported_bits
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.access_control import AclResourceType
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.messages.list_groups import ListGroupsRequest
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.registry import response_type
from tidelog.protocol.schema import ZERO_UUID, ApiMessage, MetadataRecord
from tidelog.protocol.steps import Steps, run_steps

TOPIC_ID, OFFSETS_ID, UNKNOWN_ID = UUID(int=11), UUID(int=12), UUID(int=13)
CLIENT = ConnectedClient()


def topic(name: str, topic_id: UUID, partitions: int, leader: int = 1) -> list[MetadataRecord]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        *(
            PartitionRecord(
                partition_id=index, topic_id=topic_id, replicas=(1,), isr=(1,), leader=leader, leader_epoch=0
            )
            for index in range(partitions)
        ),
    ]


class Broker:
    """All group handlers over one service, with encoded requests and responses."""

    def __init__(self) -> None:
        self.image: MetadataImage = image_after_records(
            [broker_registration_record(1), *topic("t", TOPIC_ID, 2)]
        )
        self.log = MemoryStateLog(1)
        self.time = VirtualTime()
        config = group_config(group_initial_rebalance_delay_ms=0)
        self.service = GroupService(config, group_ports(self.log, self.time, self.time))
        self.service.start()
        self.service.on_leadership(0)
        self.created: list[str] = []
        service = self.service

        def image() -> MetadataImage:
            return self.image

        find = FindCoordinatorHandler(
            {
                CoordinatorType.GROUP: CoordinatorTopic(
                    "__consumer_offsets", lambda key: partition_for(key, 50)
                )
            },
            image,
            self,
            authorizer=ALLOW_EVERYTHING,
        )
        topics = TopicAccess(image, Slices(self.time), ALLOW_EVERYTHING)
        self.handlers: dict[type[ApiMessage], Any] = {
            JoinGroupRequest: JoinGroupHandler(service),
            SyncGroupRequest: SyncGroupHandler(service),
            HeartbeatRequest: HeartbeatHandler(service),
            LeaveGroupRequest: LeaveGroupHandler(service),
            OffsetCommitRequest: OffsetCommitHandler(service, topics),
            OffsetFetchRequest: OffsetFetchHandler(service, topics),
            OffsetDeleteRequest: OffsetDeleteHandler(service, topics),
            ListGroupsRequest: ListGroupsHandler(service, ALLOW_EVERYTHING),
            DescribeGroupsRequest: DescribeGroupsHandler(service, ALLOW_EVERYTHING),
            DeleteGroupsRequest: DeleteGroupsHandler(service, Slices(self.time), ALLOW_EVERYTHING),
            FindCoordinatorRequest: find,
        }

    def ensure(self, topic: str) -> None:
        """Record the topic whose creation is requested."""
        self.created.append(topic)

    async def send_request(self, request: ApiMessage, version: int) -> Any:
        """Encode a request, let its handler respond, and return the decoded response."""
        arrived = decode(type(request), encode(request, version), version)
        context = RequestContext(
            header=RequestHeader(request.api_key, version, 1, "me"),
            listener=LISTENER,
            peer="10.0.0.1:4711",
            principal="User:ANONYMOUS",
            now_ms=self.time.wall_ms(),
            client=CLIENT,
        )
        answer: Any = self.handlers[type(request)].handle(context, arrived)
        if inspect.isgenerator(answer):
            answer = run_steps(cast("Steps[Any]", answer))
        if inspect.isawaitable(answer):
            answer = await answer
        return decode(response_type(request.api_key), encode(answer, version), version)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker()
    await loop_iterations(20)
    assert broker.service._shards.active_shards()
    yield broker
    await broker.service.stop()


def join_request(version: int, member_id: str = "", instance: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        member_id=member_id,
        group_instance_id=instance if version >= 5 else None,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=(JoinGroupRequestProtocol(name="range", metadata=b"m"),),
        reason="because",
    )


async def join(broker: Broker, version: int, instance: str | None = None) -> Any:
    answer = await join_after_delay(broker, join_request(version, instance=instance), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await join_after_delay(broker, join_request(version, answer.member_id, instance), version)
    assert answer.error_code == 0
    return answer


async def join_after_delay(broker: Broker, request: JoinGroupRequest, version: int) -> Any:
    """Send a join, and let its delay pass when the join is parked; return the response."""
    pending = asyncio.ensure_future(broker.send_request(request, version))
    for _ in range(5):
        await asyncio.sleep(0)
        broker.time.pass_time(1)
    return await pending


@pytest.mark.parametrize("version", range(10))
async def test_a_group_is_formed_in_every_version_of_join_group(broker: Broker, version: int) -> None:
    answer = await join(broker, version)
    assert (answer.generation_id, answer.protocol_name, answer.leader) == (1, "range", answer.member_id)
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    assert [member.metadata for member in answer.members] == [b"m"]
    group = broker.service._shards.active_shards()[0].coordinator._groups.get("g")
    assert group is not None
    member = group.members[answer.member_id]
    assert member.rebalance_timeout_ms == (10_000 if version == 0 else 20_000)
    assert member.client == ("me", "/10.0.0.1")


@pytest.mark.parametrize("version", range(10))
async def test_a_refused_join_has_a_protocol_name_that_the_version_can_express(
    broker: Broker, version: int
) -> None:
    answer = await broker.send_request(replace(join_request(version), session_timeout_ms=1), version)
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", range(5, 10))
async def test_a_fenced_join_can_be_expressed_in_every_version(broker: Broker, version: int) -> None:
    request = join_request(version, instance="i")
    first, second = (asyncio.ensure_future(broker.send_request(request, version)) for _ in range(2))
    for _ in range(5):
        await asyncio.sleep(0)
        broker.time.pass_time(1)
    answer = await first
    assert answer.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert answer.protocol_name == (None if version >= 7 else "")
    assert (await second).error_code == 0


@pytest.mark.parametrize("version", range(6))
async def test_the_assignment_is_returned_in_every_version_of_sync_group(
    broker: Broker, version: int
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
    answer = await broker.send_request(request, version)
    assert (answer.error_code, answer.assignment) == (0, b"all")
    assert answer.protocol_name == ("range" if version >= 5 else None)


@pytest.mark.parametrize("version", range(5))
async def test_heartbeats_are_answered_in_every_version(broker: Broker, version: int) -> None:
    member_id = (await join(broker, 3)).member_id
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
    assert (await broker.send_request(request, version)).error_code == 0
    assert (await broker.send_request(replace(request, generation_id=2), version)).error_code == (
        ErrorCode.ILLEGAL_GENERATION
    )


@pytest.mark.parametrize("version", range(6))
async def test_members_leave_in_every_version(broker: Broker, version: int) -> None:
    member_id = (await join(broker, 3)).member_id
    if version < 3:
        request = LeaveGroupRequest(group_id="g", member_id=member_id)
    else:
        request = LeaveGroupRequest(group_id="g", members=(MemberIdentity(member_id=member_id),))
    answer = await broker.send_request(request, version)
    assert answer.error_code == 0
    assert [member.error_code for member in answer.members] == ([] if version < 3 else [0])


def commit_request(version: int, *topics: tuple[str, UUID, int], group_id: str = "g") -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group_id,
        topics=tuple(
            OffsetCommitRequestTopic(
                name="" if version >= 10 else name,
                topic_id=topic_id if version >= 10 else ZERO_UUID,
                partitions=(
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=5,
                        committed_leader_epoch=3,
                        committed_metadata="m",
                    ),
                ),
            )
            for name, topic_id, index in topics
        ),
    )


@pytest.mark.parametrize("version", range(2, 11))
async def test_offsets_are_committed_in_every_version_for_partitions_that_exist(
    broker: Broker, version: int
) -> None:
    request = commit_request(version, ("t", TOPIC_ID, 0), ("u", UNKNOWN_ID, 0), ("t", TOPIC_ID, 7))
    answer = await broker.send_request(request, version)
    unknown_group = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    errors = [partition.error_code for topic in answer.topics for partition in topic.partitions]
    assert errors == [0, unknown_group, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [topic.topic_id for topic in answer.topics] == [topic.topic_id for topic in request.topics]
    requested = OffsetFetchRequestGroup(group_id="g", topics=None)
    (fetched,) = await broker.service.fetch_offsets((requested,), False)
    (each,) = fetched.topics
    assert (each.name, each.topic_id, each.partitions[0].committed_offset) == ("t", TOPIC_ID, 5)
    assert each.partitions[0].committed_leader_epoch == (3 if version >= 6 else -1)


async def test_an_error_of_the_whole_commit_is_set_for_every_existing_partition(broker: Broker) -> None:
    request = commit_request(9, ("t", TOPIC_ID, 0), ("u", UNKNOWN_ID, 0))
    answer = await broker.send_request(replace(request, generation_id_or_member_epoch=3, member_id="m"), 9)
    errors = [partition.error_code for topic in answer.topics for partition in topic.partitions]
    assert errors == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_commit_without_existing_partitions_does_not_reach_the_coordinator(broker: Broker) -> None:
    answer = await broker.send_request(commit_request(9, ("u", UNKNOWN_ID, 0)), 9)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.log.batches == {0: []}


def fetch_request(version: int, *, everything: bool = False) -> OffsetFetchRequest:
    if version < 8:
        requested = (OffsetFetchRequestTopic(name="t", partition_indexes=(0, 1)),)
        return OffsetFetchRequest(group_id="g", topics=None if everything else requested)
    topics = (
        OffsetFetchRequestTopics(
            name="" if version >= 10 else "t",
            topic_id=TOPIC_ID if version >= 10 else ZERO_UUID,
            partition_indexes=(0, 1),
        ),
    )
    groups = (
        OffsetFetchRequestGroup(group_id="g", topics=None if everything else topics),
        OffsetFetchRequestGroup(group_id="other", topics=topics),
    )
    return OffsetFetchRequest(groups=groups)


@pytest.mark.parametrize("version", range(1, 11))
async def test_offsets_are_fetched_in_every_version(broker: Broker, version: int) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    answer = await broker.send_request(fetch_request(version), version)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    ((name, topic_id, partitions),) = (
        (topic.name, getattr(topic, "topic_id", ZERO_UUID), topic.partitions) for topic in topics
    )
    assert (name, topic_id) == (("", TOPIC_ID) if version >= 10 else ("t", ZERO_UUID))
    assert [(p.partition_index, p.committed_offset, p.metadata) for p in partitions] == [
        (0, 5, "m"),
        (1, -1, ""),
    ]
    if version >= 8:
        assert [p.committed_offset for p in answer.groups[1].topics[0].partitions] == [-1, -1]


@pytest.mark.parametrize("version", range(2, 11))
async def test_all_offsets_are_fetched_in_every_version_that_can_ask_for_them(
    broker: Broker, version: int
) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 1)), 9)
    answer = await broker.send_request(fetch_request(version, everything=True), version)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    assert [[p.partition_index for p in topic.partitions] for topic in topics] == [[1]]


@pytest.mark.parametrize("version", [7, 8, 10])
async def test_repeated_partitions_are_returned_once(broker: Broker, version: int) -> None:
    request = fetch_request(version)
    if version < 8:
        (requested,) = request.topics or ()
        repeated = replace(requested, partition_indexes=(1, 0) * 1_000)
        request = replace(request, topics=(repeated, repeated))
    else:
        (asked_by_group,) = request.groups[0].topics or ()
        group = replace(
            request.groups[0], topics=(replace(asked_by_group, partition_indexes=(1, 0) * 1_000),) * 2
        )
        request = replace(request, groups=(group, group))
    answer = await broker.send_request(request, version)
    (topics,) = (answer.topics,) if version < 8 else [each.topics for each in answer.groups]
    assert [[p.partition_index for p in topic.partitions] for topic in topics] == [[1, 0]]


async def test_an_unknown_topic_id_is_reported_for_each_partition(broker: Broker) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    requested = tuple(
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=(0,))
        for topic_id in (UNKNOWN_ID, TOPIC_ID)
    )
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=requested),))
    answer = await broker.send_request(request, 10)
    assert [
        (topic.topic_id, topic.partitions[0].error_code, topic.partitions[0].committed_offset)
        for topic in answer.groups[0].topics
    ] == [(UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID, -1), (TOPIC_ID, 0, 5)]


async def test_an_offset_of_a_topic_that_was_recreated_is_not_returned_by_id(broker: Broker) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    new_id = UUID(int=99)
    broker.image = image_after_records([broker_registration_record(1), *topic("t", new_id, 2)])
    requested = (OffsetFetchRequestTopics(topic_id=new_id, partition_indexes=(0,)),)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=requested),))
    answer = await broker.send_request(request, 10)
    assert answer.groups[0].topics[0].partitions[0].committed_offset == -1


@pytest.mark.parametrize("version", range(1, 10))
async def test_an_offset_of_a_topic_that_was_recreated_is_not_returned_by_name(
    broker: Broker, version: int
) -> None:
    """No coordinator removed the old topic's offsets; a consumer of the new topic must not skip records."""
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    broker.image = image_after_records([broker_registration_record(1), *topic("t", UUID(int=99), 2)])
    answer = await broker.send_request(fetch_request(version), version)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    assert [p.committed_offset for each in topics for p in each.partitions] == [-1, -1]
    if version >= 2:
        answer = await broker.send_request(fetch_request(version, everything=True), version)
        assert (answer.topics if version < 8 else answer.groups[0].topics) == ()
    await broker.send_request(commit_request(9, ("t", ZERO_UUID, 1)), 9)
    answer = await broker.send_request(fetch_request(version), version)
    topics = answer.topics if version < 8 else answer.groups[0].topics
    assert [p.committed_offset for each in topics for p in each.partitions] == [-1, 5]
    if version >= 2:
        answer = await broker.send_request(fetch_request(version, everything=True), version)
        topics = answer.topics if version < 8 else answer.groups[0].topics
        assert [[p.partition_index for p in each.partitions] for each in topics] == [[1]]


@pytest.mark.parametrize("version", range(1, 11))
async def test_a_group_of_another_coordinator_is_refused_in_the_field_of_the_version(
    broker: Broker, version: int
) -> None:
    broker.service.on_resignation(0)
    answer = await broker.send_request(fetch_request(version), version)
    expected = ErrorCode.NOT_COORDINATOR
    if version == 1:
        assert [p.error_code for p in answer.topics[0].partitions] == [expected, expected]
    elif version < 8:
        assert (answer.error_code, answer.topics) == (expected, ())
    else:
        assert [group.error_code for group in answer.groups] == [expected, expected]


async def test_offsets_are_deleted_for_partitions_that_exist(broker: Broker) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9))
    request = OffsetDeleteRequest(
        group_id="g",
        topics=(
            OffsetDeleteRequestTopic(name="t", partitions=partitions),
            OffsetDeleteRequestTopic(name="u", partitions=partitions),
        ),
    )
    answer = await broker.send_request(request, 0)
    unknown_group = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[p.error_code for p in topic.partitions] for topic in answer.topics] == [
        [0, unknown_group],
        [unknown_group, unknown_group],
    ]
    with pytest.raises(KafkaError) as raised:
        await broker.send_request(replace(request, group_id="unknown"), 0)
    assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("version", range(6))
async def test_groups_are_listed_in_every_version(broker: Broker, version: int) -> None:
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
async def test_groups_are_described_in_every_version(broker: Broker, version: int) -> None:
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
async def test_groups_are_deleted_in_every_version(broker: Broker, version: int) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    answer = await broker.send_request(DeleteGroupsRequest(groups_names=("g", "u", "g")), version)
    assert [(result.group_id, result.error_code) for result in answer.results] == [
        ("g", 0),
        ("u", ErrorCode.GROUP_ID_NOT_FOUND),
    ]


def find_request(version: int, key_type: int = 0) -> FindCoordinatorRequest:
    if version < 4:
        return FindCoordinatorRequest(key="g", key_type=key_type if version >= 1 else 0)
    return FindCoordinatorRequest(coordinator_keys=("g", "h", "g"), key_type=key_type)


@pytest.mark.parametrize("version", range(7))
async def test_find_coordinator_creates_the_offsets_topic(broker: Broker, version: int) -> None:
    answer = await broker.send_request(find_request(version), version)
    first = answer if version < 4 else answer.coordinators[0]
    assert (first.error_code, first.node_id, first.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)
    assert broker.created[0] == "__consumer_offsets"
    broker.image = image_after_records(topic("__consumer_offsets", OFFSETS_ID, 50), broker.image)
    answer = await broker.send_request(find_request(version), version)
    coordinators = [answer] if version < 4 else answer.coordinators
    assert [(c.error_code, c.node_id, c.host, c.port) for c in coordinators] == [(0, 1, "host1", 9093)] * len(
        coordinators
    )
    if version >= 4:
        assert [c.key for c in answer.coordinators] == ["g", "h"]
    elif version >= 1:
        assert answer.error_message == "NONE"


async def test_a_partition_without_live_leader_has_no_coordinator(broker: Broker) -> None:
    broker.image = image_after_records(topic("__consumer_offsets", OFFSETS_ID, 50, leader=-1), broker.image)
    answer = await broker.send_request(find_request(4), 4)
    assert {c.error_code for c in answer.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    fenced = broker_registration_record(1, fenced=True)
    broker.image = image_after_records([fenced, *topic("__consumer_offsets", OFFSETS_ID, 50)])
    answer = await broker.send_request(find_request(3), 3)
    assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@pytest.mark.parametrize(("version", "key_type"), [(5, 2), (6, 2), (4, 1), (3, 1), (4, 9)])
async def test_key_types_without_a_coordinator_are_invalid(
    broker: Broker, version: int, key_type: int
) -> None:
    answer = await broker.send_request(find_request(version, key_type), version)
    first = answer if version < 4 else answer.coordinators[0]
    assert first.error_code == ErrorCode.INVALID_REQUEST
    assert broker.created == []
