"""The handlers of consumer groups: the feature, authorization, expressions, descriptions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.groups.served_groups import ServedGroups
from tests.support.loops.yields import loop_iterations
from tidelog.broker.api.handlers.consumer_group_describe import ConsumerGroupDescribeHandler
from tidelog.broker.api.handlers.consumer_group_heartbeat import ConsumerGroupHeartbeatHandler
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.steps import run_steps


class Broker:
    """The two handlers over the groups of one client."""

    def __init__(self) -> None:
        self.served = ServedGroups("t", "t2", "secret")
        groups, access = self.served.service.consumer_groups, self.served.access()
        self._heartbeat = ConsumerGroupHeartbeatHandler(groups, access)
        self._describe = ConsumerGroupDescribeHandler(groups, access)

    async def heartbeat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        values = {"group_id": "g", "member_id": "m", "rebalance_timeout_ms": 1, "topic_partitions": ()}
        request = ConsumerGroupHeartbeatRequest(**{**values, **fields})
        result = self._heartbeat.handle(self.served.context(68, 1), request)
        response = result if isinstance(result, ConsumerGroupHeartbeatResponse) else await result
        await loop_iterations(20)
        return response

    def describe(self, group_id: str = "g") -> DescribedGroup:
        request = ConsumerGroupDescribeRequest(group_ids=(group_id,), include_authorized_operations=True)
        (group,) = run_steps(self._describe.handle(self.served.context(69, 1), request)).groups
        return group


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    broker = Broker()
    await broker.served.start()
    yield broker
    await broker.served.stop()


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
    broker.served.is_enabled = False
    response = await broker.heartbeat(subscribed_topic_names=("t",))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert broker.describe().error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_member_may_subscribe_only_to_topics_that_it_may_describe(broker: Broker) -> None:
    broker.served.denied.add("secret")
    response = await broker.heartbeat(subscribed_topic_names=("t", "secret"))
    assert response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def test_an_expression_matches_only_topics_that_the_member_may_describe(broker: Broker) -> None:
    broker.served.denied.add("t2")
    await broker.heartbeat(subscribed_topic_names=(), subscribed_topic_regex="t.*")
    broker.served.time.pass_time(1_000)
    await broker.heartbeat(member_epoch=1, rebalance_timeout_ms=-1, topic_partitions=None)
    (member,) = broker.describe().members
    assert [each.topic_name for each in member.assignment.topic_partitions] == ["t"]


async def test_a_group_with_a_topic_that_the_client_may_not_describe_has_no_members(broker: Broker) -> None:
    await broker.heartbeat(subscribed_topic_names=("t",))
    broker.served.denied.add("t")
    hidden = broker.describe()
    assert (hidden.error_code, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ())
    broker.served.denied.add("g")
    assert broker.describe().error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


async def test_an_unknown_group_is_an_error_with_a_message(broker: Broker) -> None:
    group = broker.describe("x")
    assert (group.error_code, group.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found.")
