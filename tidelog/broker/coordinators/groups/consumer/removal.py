"""Members leave a consumer group, or are removed because a deadline has expired.

Source: GroupMetadataManager.consumerGroupLeave, consumerGroupFenceMembers and their timers of Apache Kafka
4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tidelog.broker.coordinators.groups.consumer.conversion_port import GroupConversion
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import STATIC_LEAVE_EPOCH, ConsumerMember, MemberState
from tidelog.broker.coordinators.groups.consumer.records import (
    current_assignment,
    group_epoch,
    member_tombstones,
    regular_expression_tombstone,
)
from tidelog.broker.coordinators.groups.consumer.timers import MemberTimers
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.deadlines import DeadlineKind
from tidelog.broker.coordinators.groups.epochs import LEAVE_EPOCH
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

logger = logging.getLogger(__name__)

_REASONS: Final = {
    DeadlineKind.CONSUMER_SESSION: "its session has expired",
    DeadlineKind.REVOCATION: "it has not revoked its partitions in its rebalance timeout",
    DeadlineKind.CLASSIC_JOIN: "it has not joined again in its rebalance timeout",
    DeadlineKind.CLASSIC_SYNC: "it has not sent SyncGroup in its rebalance timeout",
}


class MemberRemoval:
    """Removes members, which starts a new group epoch."""

    def __init__(self, groups: GroupConversion, topics: Topics, timers: MemberTimers) -> None:
        self._groups = groups
        self._topics = topics
        self._timers = timers

    def leave(self, request: ConsumerGroupHeartbeatRequest) -> Outcome[ConsumerGroupHeartbeatResponse]:
        """Remove the member that sends a heartbeat with a leave epoch.

        A static member that leaves temporarily keeps its partitions until its session expires. Raise
        KafkaError for an unknown member.
        """
        group = self._groups.existing(request.group_id)
        response = ConsumerGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        if request.instance_id is None:
            member = group.member(request.member_id)
        else:
            member = check_static_member(group, request.member_id, request.instance_id)
            if request.member_epoch == STATIC_LEAVE_EPOCH:
                return Outcome(response, self._leave_temporarily(group, member))
        logger.info("Group %s: member %s left", group.group_id, member.member_id)
        return Outcome(response, self.remove(group, {member.member_id: member}))

    def _leave_temporarily(self, group: ConsumerGroup, member: ConsumerMember) -> Writes:
        logger.info(
            "Group %s: static member %s of instance %s left temporarily",
            group.group_id,
            member.member_id,
            member.instance_id,
        )
        left = replace(
            member,
            member_epoch=STATIC_LEAVE_EPOCH,
            pending_revocation={},
            assigned={topic_id: dict.fromkeys(epochs, 0) for topic_id, epochs in member.assigned.items()},
        )
        return Writes((current_assignment(group.group_id, left),))

    def remove(self, group: ConsumerGroup, members: Mapping[str, ConsumerMember]) -> Writes:
        """Remove members. If only classic members remain, the group becomes a classic group."""
        if not members:
            return NO_WRITES
        if self._groups.allows_downgrade(group, members, joining=0):
            reason = f"{len(members)} members of the consumer protocol left, and only classic ones remain"
            return self._groups.downgrade(group, members, None, [], reason)
        records: list[CoordinatorRecord] = []
        subscriptions = group.subscriptions.copy()
        for member_id, member in members.items():
            records += member_tombstones(group.group_id, member_id)
            subscriptions.replace(member, None)
            self._timers.cancel(group.group_id, member_id)
        records += [
            regular_expression_tombstone(group.group_id, expression)
            for expression in subscriptions.drop_unused_expressions()
        ]
        epoch = group.epochs.group_epoch + 1
        metadata_hash = self._topics.hash_of(*subscriptions.name_sets())
        records.append(group_epoch(group.group_id, epoch, metadata_hash))
        logger.info("Group %s: group epoch %d after the removal of %s", group.group_id, epoch, [*members])
        return Writes(tuple(records))

    def on_deadline(self, group: ConsumerGroup, member_id: str, kind: DeadlineKind) -> Writes:
        """Remove a member whose deadline has expired, if the deadline still applies to it."""
        member = group.members.get(member_id)
        if member is None:
            return NO_WRITES
        if kind is DeadlineKind.REVOCATION and member.state is not MemberState.UNREVOKED_PARTITIONS:
            return NO_WRITES
        logger.info("Group %s: removing member %s, because %s", group.group_id, member_id, _REASONS[kind])
        return self.remove(group, {member_id: member})


def check_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the static member that sends a request. Raise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        text = (
            f"Static member {member_id} with instance id {instance_id} was fenced by member "
            f"{member.member_id}."
        )
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, text)
    return member


def is_leave(member_epoch: int) -> bool:
    """Return whether a heartbeat with this epoch leaves the group."""
    return member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)
