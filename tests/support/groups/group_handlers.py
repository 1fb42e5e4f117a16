"""The handlers of a group coordinator, with requests of each version."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any, cast
from uuid import UUID

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.ports import group_ports
from tests.support.groups.state_log import MemoryStateLog
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
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages.delete_groups import DeleteGroupsRequest
from tidelog.protocol.messages.describe_groups import DescribeGroupsRequest
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tidelog.protocol.messages.leave_group import LeaveGroupRequest
from tidelog.protocol.messages.list_groups import ListGroupsRequest
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest
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


class GroupBroker:
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
            OffsetCommitRequest: OffsetCommitHandler(service.offset_commits, topics),
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
        response: Any = self.handlers[type(request)].handle(context, arrived)
        if inspect.isgenerator(response):
            response = run_steps(cast("Steps[Any]", response))
        if inspect.isawaitable(response):
            response = await response
        if inspect.isgenerator(response):
            response = run_steps(cast("Steps[Any]", response))
        return decode(response_type(request.api_key), encode(response, version), version)


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


async def join(broker: GroupBroker, version: int, instance: str | None = None) -> Any:
    response = await join_after_delay(broker, join_request(version, instance=instance), version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = await join_after_delay(
            broker, join_request(version, response.member_id, instance), version
        )
    assert response.error_code == 0
    return response


async def join_after_delay(broker: GroupBroker, request: JoinGroupRequest, version: int) -> Any:
    """Send a join, and let its delay pass when the join is parked; return the response."""
    pending = asyncio.ensure_future(broker.send_request(request, version))
    for _ in range(5):
        await asyncio.sleep(0)
        broker.time.pass_time(1)
    return await pending


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
