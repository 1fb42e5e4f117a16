"""ConsumerGroupHeartbeat: members join, stay, change their subscription, receive their assignment, and leave.

| member epoch of the request | meaning |
|-----------------------------|---------|
| 0 | join, or join again after the member was fenced |
| -1 | leave |
| -2 | leave for a while, as a static member |
| above | stay; a smaller epoch than the current one is FENCED_MEMBER_EPOCH, except the previous one of a member whose response was lost |

Source: GroupMetadataManager.consumerGroupHeartbeat of Apache Kafka 4.3.1; KIP-848.
"""  # noqa: E501

from __future__ import annotations

import logging
from collections.abc import Set
from dataclasses import replace
from typing import Final, NamedTuple

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.command_context import CommandContext
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.heartbeat_checks import check_epoch, check_request
from tidelog.broker.coordinators.groups.consumer.member import AssignedPartitions, ConsumerMember
from tidelog.broker.coordinators.groups.consumer.records import member_metadata
from tidelog.broker.coordinators.groups.consumer.removal import check_static_member, is_leave
from tidelog.broker.coordinators.groups.epochs import JOIN_EPOCH
from tidelog.broker.coordinators.groups.members.prepared_record import prepare_record
from tidelog.broker.coordinators.groups.members.prepared_subscription import (
    NOT_PREPARED,
    PreparedSubscription,
)
from tidelog.broker.coordinators.groups.members.topic_names import (
    TopicNames,
    is_wide,
    topic_names_in_steps,
)
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome
from tidelog.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ResponseTopicPartitions,
)
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

_NOT_SENT: Final = -1


class HeartbeatReply(NamedTuple):
    """The response, and the expressions of the group that must be resolved."""

    response: ConsumerGroupHeartbeatResponse
    to_resolve: frozenset[str] = frozenset()


class HeartbeatCommand:
    """Handles ConsumerGroupHeartbeat."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    def heartbeat(
        self,
        client: Client,
        request: ConsumerGroupHeartbeatRequest,
        version: int,
        now: Moment,
        prepared: PreparedSubscription = NOT_PREPARED,
    ) -> Outcome[HeartbeatReply]:
        """Return the epoch of the member, and its assignment if it has changed.

        `prepared` is the result of `prepare` for a wide subscription. Raise KafkaError if the request is
        rejected.
        """
        check_request(request, version, self._context.settings.broker.group_consumer_assignors)
        if is_leave(request.member_epoch):
            left = self._context.removal.leave(request)
            return Outcome(HeartbeatReply(left.reply), left.writes)
        records: list[CoordinatorRecord] = []
        if request.member_epoch == JOIN_EPOCH:
            group, records = self._context.groups.to_join(request.group_id, now)
        else:
            group = self._context.groups.existing(request.group_id, "Consumer group")
        member_id = request.member_id or self._context.new_member_id()
        self._context.lookup.check_room(group, member_id)
        previous = self._find(group, member_id, request, records)
        member = _updated(previous, client, request, prepared.names)
        self._context.lookup.check_memory(group, previous, member)
        subscribed = self._context.update.subscribe(group, previous, member, records)
        owned = None
        if request.topic_partitions is not None:
            owned = {each.topic_id: frozenset(each.partitions) for each in request.topic_partitions}
        member = self._context.update.assign(subscribed, owned, records, now)
        # After all checks: the caller must resolve what this returns.
        to_resolve = self._context.expressions.to_resolve(group, previous, subscribed.change.member, now)
        settings = self._context.settings.of_group(group.group_id)
        self._context.timers.keep_alive(group.group_id, member_id, settings.session_timeout_ms, now)
        response = ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        if request.member_epoch == JOIN_EPOCH or _is_full(request) or previous.assigned != member.assigned:
            response = replace(response, assignment=_assignment(member.assigned))
        return Outcome(HeartbeatReply(response, to_resolve), prepared.writes(records))

    def prepare(
        self, group: ConsumerGroup | None, client: Client, request: ConsumerGroupHeartbeatRequest
    ) -> Steps[PreparedSubscription]:
        """Prepare a heartbeat whose member, or whose group, has a wide subscription."""
        name_sets: list[Set[str]] = [] if group is None else group.subscriptions.name_sets()
        prepared = NOT_PREPARED
        if is_wide(request.subscribed_topic_names):
            member_id = request.member_id
            previous = ConsumerMember(member_id=member_id)
            if group is not None:
                previous = group.static_member(request.instance_id) or group.members.get(member_id, previous)
            names = yield from topic_names_in_steps(request.subscribed_topic_names)
            member = _updated(previous, client, request, names)
            record = yield from prepare_record(member_metadata(request.group_id, member))
            prepared = PreparedSubscription(names, record, previous.subscribed_topic_names)
            name_sets.append(names.as_set)
        yield from self._context.topics.prepare_hash_of(*name_sets)
        return prepared

    def _find(
        self,
        group: ConsumerGroup,
        member_id: str,
        request: ConsumerGroupHeartbeatRequest,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        """Return the member before the heartbeat; a new one if it joins."""
        if request.member_epoch == JOIN_EPOCH:
            return self._context.lookup.join(group, member_id, request.instance_id, records, is_classic=False)
        if request.instance_id is None:
            member = group.member(member_id)
        else:
            member = check_static_member(group, member_id, request.instance_id)
        check_epoch(member, request)
        return member


def _updated(
    member: ConsumerMember,
    client: Client,
    request: ConsumerGroupHeartbeatRequest,
    names: TopicNames | None,
) -> ConsumerMember:
    """Return the member with the fields of a request; those that are not sent are unchanged.

    `names` are the topics of the request if they were prepared. The member, or its topics, are the same
    object if they do not change, so that comparisons are cheap.
    """
    if _sends_no_metadata(request) and member.has_client(client.client_id, client.host):
        return member
    expression = request.subscribed_topic_regex
    rebalance_timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms if rebalance_timeout_ms == _NOT_SENT else rebalance_timeout_ms
        ),
        server_assignor=(
            member.server_assignor if request.server_assignor is None else request.server_assignor
        ),
        subscribed_topic_names=member.subscribed_topic_names.changed_to(
            request.subscribed_topic_names, names
        ),
        subscribed_topic_regex=member.subscribed_topic_regex if expression is None else expression,
        client_id=client.client_id,
        client_host=client.host,
        classic=None,
    )


def _sends_no_metadata(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat has only the epoch of the member and what it owns."""
    return (
        request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.instance_id is None
        and request.rack_id is None
        and request.server_assignor is None
        and request.rebalance_timeout_ms == _NOT_SENT
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a member sends everything, because it does not know whether its request was received."""
    return (
        request.rebalance_timeout_ms != _NOT_SENT
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )


def _assignment(assigned: AssignedPartitions) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            ResponseTopicPartitions(topic_id=topic_id, partitions=tuple(epochs))
            for topic_id, epochs in assigned.items()
        )
    )
