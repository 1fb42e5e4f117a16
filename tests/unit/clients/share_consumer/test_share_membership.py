"""A member of a share group: joining, heartbeats, fencing and leaving."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.clients.share_consumer.share_membership import MemberState, ShareMembership
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TOPICS = frozenset({"t"})
TOPIC_ID = UUID(int=1)


def response(epoch: int = 3, partitions: tuple[int, ...] | None = (1, 0)) -> ShareGroupHeartbeatResponse:
    assignment = None
    if partitions is not None:
        topic = TopicPartitions(topic_id=TOPIC_ID, partitions=partitions)
        assignment = Assignment(topic_partitions=(topic,))
    return ShareGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=1000, assignment=assignment)


def joined_membership() -> ShareMembership:
    membership = ShareMembership("g", "m", "rack")
    membership.request(TOPICS, 0)
    membership.on_response(response(), 0)
    return membership


def test_a_member_joins_with_its_topics_and_then_sends_only_changes() -> None:
    membership = ShareMembership("g", "m", "rack")
    join = membership.request(TOPICS, 0)
    assert (join.member_epoch, join.subscribed_topic_names, join.rack_id) == (0, ("t",), "rack")
    membership.on_response(response(), 0)
    assert membership.is_member and membership.assigned == {TOPIC_ID: (0, 1)}
    assert membership.next_heartbeat_ms(400) == 600
    heartbeat = membership.request(TOPICS, 1000)
    assert (heartbeat.member_epoch, heartbeat.subscribed_topic_names, heartbeat.rack_id) == (3, None, None)


def test_topics_are_sent_again_after_a_lost_response() -> None:
    membership = joined_membership()
    membership.request(TOPICS, 1000)
    assert membership.request(TOPICS, 2000).subscribed_topic_names == ("t",)


def test_a_response_without_an_assignment_keeps_the_last_one() -> None:
    membership = joined_membership()
    membership.on_response(response(4, None), 1000)
    assert membership.assigned == {TOPIC_ID: (0, 1)}


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_joins_again(code: ErrorCode) -> None:
    membership = joined_membership()
    membership.on_response(ShareGroupHeartbeatResponse(error_code=code), 1000)
    assert membership.state is MemberState.JOINING and membership.assigned == {}
    assert membership.request(TOPICS, 1000).member_epoch == 0


def test_an_error_that_is_not_retriable_is_final() -> None:
    membership = joined_membership()
    with pytest.raises(KafkaError, match="share group 'g'"):
        membership.on_response(
            ShareGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED), 0
        )
    assert membership.state is MemberState.FATAL


def test_a_member_leaves_once_and_can_join_again() -> None:
    membership = joined_membership()
    leave = membership.leave_request()
    assert leave is not None and leave.member_epoch == -1
    assert membership.leave_request() is None
    membership.rejoin()
    assert membership.request(TOPICS, 0).member_epoch == 0
