"""The handlers of consumer groups: the feature, authorization, expressions, descriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.ports import group_ports
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import loop_iterations
from tests.support.metadata.images import LISTENER, image_after_records
from tests.support.security.authorizers import DenyingAuthorizer
from tidelog.broker.api.handlers.consumer_group_describe import ConsumerGroupDescribeHandler
from tidelog.broker.api.handlers.consumer_group_heartbeat import ConsumerGroupHeartbeatHandler
from tidelog.broker.api.handlers.group_access import GroupAccess
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import run_steps


def topics(*names: str) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    for number, name in enumerate(names, 1):
        topic_id = UUID(int=number)
        records.append(TopicRecord(name=name, topic_id=topic_id))
        records.append(PartitionRecord(topic_id=topic_id, replicas=(1,), isr=(1,), leader=1))
    return records


class Broker:
    """The two handlers over a service; `denied` are the resources that the client may not access."""

    def __init__(self) -> None:
        self.time = VirtualTime()
        image = image_after_records(topics("t", "t2", "secret"))
        ports = group_ports(MemoryStateLog(1), self.time, self.time)._replace(image=lambda: image)
        self.service = GroupService(group_config(), ports)
        self.service.start()
        self.service.on_leadership(0)
        self.is_enabled = True
        self.denied: set[str] = set()
        authorizer = DenyingAuthorizer(self.denied)
        groups = self.service.consumer_groups
        access = GroupAccess(authorizer, ports.slices, lambda: self.is_enabled)
        self._heartbeat = ConsumerGroupHeartbeatHandler(groups, access)
        self._describe = ConsumerGroupDescribeHandler(groups, access)

    def _context(self, api_key: int) -> RequestContext:
        return RequestContext(
            header=RequestHeader(api_key, 1, 1, "me"),
            listener=LISTENER,
            peer="10.0.0.1:4711",
            principal="User:alice",
            now_ms=self.time.wall_ms(),
            client=ConnectedClient(),
        )

    async def heartbeat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        values = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 1, "topic_partitions": ()}
        request = ConsumerGroupHeartbeatRequest(**{**values, **fields})
        response = await self._heartbeat.handle(self._context(68), request)
        await loop_iterations(20)
        return response

    def describe(self, group_id: str = "g") -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=(group_id,), include_authorized_operations=True)
        (group,) = run_steps(self._describe.handle(self._context(69), request)).groups
        return group


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker()
    await loop_iterations(20)
    yield broker
    await broker.service.stop()


async def test_a_member_joins_and_is_described(broker: Broker) -> None:
    joined = await broker.heartbeat(subscribed_topic_names=("t",))
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 2)
    group = broker.describe()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Stable", 2, 2)
    assert group.assignor_name == "uniform"
    assert group.authorized_operations != -(2**31)
    (member,) = group.members
    assert (member.member_id, member.member_type, member.client_host) == ("m", 1, "/10.0.0.1")
    assert member.assignment == member.target_assignment
    assert [each.topic_name for each in member.assignment.topic_partitions] == ["t"]


async def test_a_rejected_heartbeat_has_a_message(broker: Broker) -> None:
    rejected = await broker.heartbeat(subscribed_topic_names=("t",), member_epoch=5)
    assert rejected.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert rejected.error_message == "Consumer group g not found."


async def test_the_apis_are_unsupported_without_the_feature(broker: Broker) -> None:
    broker.is_enabled = False
    response = await broker.heartbeat(subscribed_topic_names=("t",))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert broker.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_member_may_subscribe_only_to_topics_that_it_may_describe(broker: Broker) -> None:
    broker.denied.add("secret")
    response = await broker.heartbeat(subscribed_topic_names=("t", "secret"))
    assert response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_an_expression_matches_only_topics_that_the_member_may_describe(broker: Broker) -> None:
    broker.denied.add("t2")
    await broker.heartbeat(subscribed_topic_names=(), subscribed_topic_regex="t.*")
    broker.time.pass_time(1_000)
    await broker.heartbeat(member_epoch=1, rebalance_timeout_ms=-1, topic_partitions=None)
    (member,) = broker.describe().members
    assert [each.topic_name for each in member.assignment.topic_partitions] == ["t"]


async def test_a_group_with_a_topic_that_the_client_may_not_describe_has_no_members(broker: Broker) -> None:
    await broker.heartbeat(subscribed_topic_names=("t",))
    broker.denied.add("t")
    hidden = broker.describe()
    assert (hidden.error_code, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ())
    broker.denied.add("g")
    assert broker.describe().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_an_unknown_group_is_an_error_with_a_message(broker: Broker) -> None:
    group = broker.describe("x")
    assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found.")
