"""The heartbeats of a member of a consumer group (KIP-848), and the effect of the responses."""

from __future__ import annotations

from uuid import UUID

import pytest

from tidelog.clients.groups.consumer_membership import ConsumerMembership, MemberState, PartitionIds, by_topic
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)

T = UUID(int=1)
TOPICS = frozenset({"t"})


def new_membership(instance: str | None = None) -> ConsumerMembership:
    return ConsumerMembership(
        "g", "m", group_instance_id=instance, rack="r", assignor="range", rebalance_timeout_ms=7
    )


def response(
    epoch: int, partitions: tuple[int, ...] | None = None, error: ErrorCode = ErrorCode.NONE
) -> ConsumerGroupHeartbeatResponse:
    assignment = None
    if partitions is not None:
        topics = (ResponseTopicPartitions(topic_id=T, partitions=partitions),) if partitions else ()
        assignment = Assignment(topic_partitions=topics)
    return ConsumerGroupHeartbeatResponse(
        error_code=error, member_epoch=epoch, heartbeat_interval_ms=100, assignment=assignment
    )


def joined_membership(owned: PartitionIds | None = None) -> ConsumerMembership:
    membership = new_membership()
    membership.request(TOPICS, {}, 0)
    membership.on_response(response(2, (1, 0)), 5)
    assert membership.assigned == {T: (0, 1)}
    return membership


def test_the_first_heartbeat_has_everything_and_later_ones_only_what_has_changed() -> None:
    membership = new_membership()
    first = membership.request(TOPICS, {}, 0)
    assert (first.member_epoch, first.rack_id, first.rebalance_timeout_ms) == (0, "r", 7)
    assert (first.subscribed_topic_names, first.server_assignor, first.topic_partitions) == (
        ("t",),
        "range",
        (),
    )
    membership.on_response(response(2, (0, 1)), 0)
    second = membership.request(TOPICS, {T: (0, 1)}, 100)
    assert (second.member_epoch, second.rebalance_timeout_ms, second.subscribed_topic_names) == (2, -1, None)
    assert second.topic_partitions is not None
    assert second.topic_partitions[0].partitions == (0, 1)
    membership.on_response(response(2), 100)
    third = membership.request(TOPICS | {"u"}, {T: (0, 1)}, 200)
    assert (third.subscribed_topic_names, third.topic_partitions) == (("t", "u"), None)


def test_the_heartbeat_after_a_lost_response_has_everything() -> None:
    membership = joined_membership()
    membership.request(TOPICS, {T: (0, 1)}, 100)
    again = membership.request(TOPICS, {T: (0, 1)}, 200)
    assert (again.member_epoch, again.rebalance_timeout_ms) == (2, 7)
    assert again.subscribed_topic_names == ("t",)
    assert again.topic_partitions is not None


def test_heartbeats_are_the_interval_of_the_coordinator_apart_unless_one_is_requested() -> None:
    membership = joined_membership()
    assert membership.next_heartbeat_ms(5) == 100
    membership.request_heartbeat()
    assert membership.next_heartbeat_ms(5) == 0


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_abandons_its_partitions_and_joins_again_with_its_id(code: ErrorCode) -> None:
    membership = joined_membership()
    membership.on_response(response(0, error=code), 10)
    assert (membership.state, membership.may_commit, membership.assigned) == (MemberState.LOST, False, {})
    membership.on_abandoned()
    request = membership.request(TOPICS, {}, 20)
    assert (request.member_id, request.member_epoch, request.topic_partitions) == ("m", 0, ())


def test_a_retriable_error_keeps_the_membership_and_another_one_ends_it() -> None:
    membership = joined_membership()
    with pytest.raises(KafkaError):
        membership.on_response(response(0, error=ErrorCode.NOT_COORDINATOR), 10)
    assert membership.may_commit
    with pytest.raises(KafkaError) as error:
        membership.on_response(response(0, error=ErrorCode.GROUP_MAX_SIZE_REACHED), 10)
    assert error.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert membership.state is MemberState.FATAL


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_leaves_once_and_ignores_later_responses(instance: str | None, epoch: int) -> None:
    membership = new_membership(instance)
    assert membership.leave_request() is None
    membership.request(TOPICS, {}, 0)
    membership.on_response(response(2, (0,)), 0)
    leave = membership.leave_request()
    assert leave is not None
    assert (leave.member_epoch, leave.instance_id) == (epoch, instance)
    membership.on_response(response(3, (0,)), 1)
    assert membership.leave_request() is None
    assert membership.assigned == {}


def test_the_error_of_a_commit_hastens_the_next_heartbeat() -> None:
    membership = joined_membership()
    membership.on_commit_error(ErrorCode.STALE_MEMBER_EPOCH)
    assert membership.next_heartbeat_ms(5) == 100
    membership.on_commit_error(ErrorCode.UNKNOWN_MEMBER_ID)
    assert membership.next_heartbeat_ms(5) == 0


def test_partitions_are_grouped_in_order() -> None:
    assert by_topic([(T, 3), (T, 1), (UUID(int=0), 2)]) == {UUID(int=0): (2,), T: (1, 3)}


def test_a_pattern_is_sent_once_and_an_empty_one_removes_it() -> None:
    membership = new_membership()
    assert membership.request(frozenset(), {}, 0, pattern="t.*").subscribed_topic_regex == "t.*"
    membership.on_response(response(2, ()), 0)
    assert membership.request(frozenset(), {}, 100, pattern="t.*").subscribed_topic_regex is None
    membership.on_response(response(2), 100)
    by_name = membership.request(TOPICS, {}, 200)
    assert (by_name.subscribed_topic_regex, by_name.subscribed_topic_names) == ("", ("t",))


def test_the_removal_of_a_pattern_is_repeated_after_a_lost_response() -> None:
    membership = new_membership()
    membership.request(frozenset(), {}, 0, pattern="t.*")
    membership.on_response(response(2, ()), 0)
    membership.request(TOPICS, {}, 100)
    assert membership.request(TOPICS, {}, 200).subscribed_topic_regex == ""


def test_a_member_without_a_pattern_sends_none_so_that_older_coordinators_accept_it() -> None:
    membership = new_membership()
    assert membership.request(TOPICS, {}, 0).subscribed_topic_regex is None
    assert membership.request(TOPICS, {}, 100).subscribed_topic_regex is None
