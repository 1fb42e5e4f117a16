"""The checks of a ConsumerGroupHeartbeat request.

Source: GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid and
GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid of Apache Kafka 4.3.1; the texts are Kafka's,
because clients show them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from tidelog.broker.coordinators.groups.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember
from tidelog.broker.coordinators.groups.epochs import LEAVE_EPOCH
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    RequestTopicPartitions,
)

CLIENT_MEMBER_ID_FROM_VERSION: Final = 1
"""From this version on, the client chooses the member id."""


def check_request(request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]) -> None:
    """Raise INVALID_REQUEST or UNSUPPORTED_ASSIGNOR for a request that no group may accept."""
    epoch = request.member_epoch
    if version >= CLIENT_MEMBER_ID_FROM_VERSION or epoch > 0 or epoch == LEAVE_EPOCH:
        _check_not_empty(request.member_id, "MemberId can't be empty.")
    _check_not_empty(request.group_id, "GroupId can't be empty.")
    _check_not_empty(request.instance_id, "InstanceId can't be empty.")
    _check_not_empty(request.rack_id, "RackId can't be empty.")
    if epoch == 0:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise _invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise _invalid("MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        text = f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: "
        raise KafkaError(ErrorCode.UNSUPPORTED_ASSIGNOR, f"{text}{', '.join(assignors)}.")


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise _invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise _invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        text = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        raise _invalid(text)


def check_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the request has the member's epoch.

    The previous epoch is accepted as well if the member owns only partitions that are assigned to it: the
    response with the new epoch was lost.
    """
    epoch = request.member_epoch
    if epoch == member.member_epoch:
        return
    if epoch > member.member_epoch:
        relation = "greater"
    elif epoch == member.previous_member_epoch and _are_assigned(member, request.topic_partitions):
        return
    else:
        relation = "smaller"
    text = (
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.member_epoch}). The member must abandon all its partitions and rejoin."
    )
    raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)


def _are_assigned(member: ConsumerMember, owned: tuple[RequestTopicPartitions, ...] | None) -> bool:
    return owned is not None and all(
        each.topic_id in member.assigned and member.assigned[each.topic_id].keys() >= set(each.partitions)
        for each in owned
    )


def _check_not_empty(value: str | None, text: str) -> None:
    if value is not None and not value.strip():
        raise _invalid(text)


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
