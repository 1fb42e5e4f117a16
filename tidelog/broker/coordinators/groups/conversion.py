"""Conversions between classic groups and consumer groups, in both directions.

A classic group becomes a consumer group when a member joins with the new protocol. Its members keep their
ids, partitions and generation, and continue with the classic protocol. When the last member of the new
protocol leaves, the group becomes a classic group again. `group.consumer.migration.policy` may forbid either;
groups without members are always converted.

Source: GroupMetadataManager.convertToConsumerGroup and convertToClassicGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.member import Client, Member
from tidelog.broker.coordinators.groups.classic.member_memory import GroupMemory, MemberMemory
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupSettings
from tidelog.broker.coordinators.groups.consumer.conversion_port import GroupToJoin
from tidelog.broker.coordinators.groups.consumer.embedded_protocol import (
    assigned_partitions,
    assignment_bytes,
    read_assignment,
    read_subscription,
)
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember
from tidelog.broker.coordinators.groups.consumer.records import (
    current_assignment,
    group_epoch,
    group_tombstones,
    member_metadata,
    target_assignment,
    target_assignment_epoch,
)
from tidelog.broker.coordinators.groups.consumer.timers import MemberTimers
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.epochs import NO_ASSIGNMENT_TIME
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions
from tidelog.broker.coordinators.groups.members.topic_names import TopicNames
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.records.coordinator_records import (
    CoordinatorRecord,
    group_metadata,
    group_tombstone,
)
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES
from tidelog.protocol.coordinator_records.consumer_group import ClassicMemberMetadata, ClassicProtocol
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

_CONSUMER: Final = "consumer"


class ConversionSettings(NamedTuple):
    """The settings of both types of groups."""

    classic: GroupConfig
    consumer: ConsumerGroupSettings


class Conversion:
    """Implements `tidelog.broker.coordinators.groups.consumer.conversion_port.GroupConversion`."""

    def __init__(
        self,
        groups: GroupRegistry,
        rebalance: Rebalance,
        settings: ConversionSettings,
        topics: Topics,
        timers: MemberTimers,
    ) -> None:
        self._groups = groups
        self._rebalance = rebalance
        self._config, self._settings = settings
        self._topics = topics
        self._timers = timers

    # Look-ups

    def existing(self, group_id: str, kind: str = "Group") -> ConsumerGroup:
        """Return a consumer group. Raise GROUP_ID_NOT_FOUND, with `kind` in the text, if there is none."""
        group = self._groups.consumers.find(group_id)
        if group is None:
            text = f"{kind} {group_id} not found."
            if group_id in self._groups:
                text = f"Group {group_id} is not a consumer group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return group

    def to_join(self, group_id: str, now: Moment) -> GroupToJoin:
        """Return the group that a member joins; a classic group is converted, if it may be.

        Raise GROUP_ID_NOT_FOUND otherwise.
        """
        group = self._groups.consumers.find(group_id)
        if group is not None:
            return GroupToJoin(group, [])
        classic = self._groups.get(group_id)
        if classic is None and group_id in self._groups:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        if classic is None:
            return GroupToJoin(self._groups.consumers.new(group_id), [])
        if not classic.members:
            logger.info("Group %s: the empty classic group becomes a consumer group", group_id)
            return GroupToJoin(self._groups.consumers.new(group_id), [group_tombstone(group_id)])
        return self._upgrade(classic, now)

    # From classic to consumer

    def _upgrade(self, classic: Group, now: Moment) -> GroupToJoin:
        self._check_upgrade(classic)
        try:
            group = self._consumer_group(classic)
        except (DecodeError, KafkaError) as error:
            raise _not_upgraded(classic, f"its consumer protocol is malformed: {error}") from error
        for member in classic.members.values():
            error_code = ErrorCode.REBALANCE_IN_PROGRESS
            response = JoinGroupResponse(member_id=member.member_id, error_code=error_code)
            classic.parked_requests.complete_join(member, response)
            classic.parked_requests.complete_sync(member, SyncGroupResponse(error_code=error_code))
            self._timers.keep_alive(classic.group_id, member.member_id, member.session_timeout_ms, now)
        logger.info("Group %s: the classic group becomes a consumer group", classic.group_id)
        return GroupToJoin(group, [group_tombstone(classic.group_id), *_all_records(group)])

    def _check_upgrade(self, classic: Group) -> None:
        """Raise GROUP_ID_NOT_FOUND if a group with members may not be converted."""
        if not self._settings.broker.migration_policy.allows_upgrade:
            raise _not_upgraded(classic, "online upgrade is disabled")
        if not classic.is_consumer_group:
            raise _not_upgraded(classic, "the group does not use the consumer embedded protocol")
        if len(classic.members) > self._settings.broker.group_consumer_max_size:
            raise _not_upgraded(classic, "the group size exceeds the consumer group maximum size")

    def _consumer_group(self, classic: Group) -> ConsumerGroup:
        """Return the consumer group with the members and the assignments of a classic group."""
        # Replay creates the group that is served, and counts its memory.
        memory = GroupMemory(classic.group_id, MemberMemory(self._config.group_max_member_bytes))
        group = ConsumerGroup(classic.group_id, memory)
        group.epochs.set_assignment_epoch(classic.generation, NO_ASSIGNMENT_TIME)
        protocol = classic.protocol_name or classic.select_protocol()
        for member in classic.members.values():
            partitions: TargetPartitions = {}
            if member.assignment:
                assignment = read_assignment(member.assignment)
                if assignment.user_data:
                    raise _not_upgraded(classic, "an unsupported custom assignor is in use")
                partitions = assigned_partitions(assignment, self._topics)
            group.set_target(member.member_id, partitions)
            group.update_member(_consumer_member(member, protocol, classic.generation, partitions))
        group.epochs.set_group_epoch(
            classic.generation, self._topics.hash_of(*group.subscriptions.name_sets())
        )
        return group

    # From consumer to classic

    def allows_downgrade(
        self, group: ConsumerGroup, leaving: Mapping[str, ConsumerMember], *, joining: int
    ) -> bool:
        """Return whether a group becomes a classic one when `leaving` leave, and `joining` members join."""
        member_count = len(group.members) - len(leaving) + joining
        if member_count <= 0 or not group.all_use_classic_protocol_without(leaving):
            return False
        if not self._settings.broker.migration_policy.allows_downgrade:
            logger.info("Group %s stays a consumer group: online downgrade is disabled", group.group_id)
            return False
        return member_count <= self._config.group_max_size

    def downgrade(
        self,
        group: ConsumerGroup,
        leaving: Mapping[str, ConsumerMember],
        joining: ConsumerMember | None,
        records: list[CoordinatorRecord],
        rebalance_reason: str | None,
    ) -> Writes:
        """Return `records` and those that make the group a classic one.

        `joining` is a static member that replaces the leaving one. With a reason, the classic group
        rebalances.
        """
        group_id = group.group_id
        deleted = [each for each in group.members if joining is None or each not in leaving]
        if joining is not None:
            deleted.append(joining.member_id)
        records += group_tombstones(group_id, deleted, group.subscriptions.resolved)
        records.append(self._classic_record(group, leaving, joining))
        for member_id in group.members:
            self._timers.cancel(group_id, member_id)
        logger.info("Group %s: the consumer group becomes a classic group", group_id)

        def follow_up(error: ErrorCode, now: Moment) -> Writes:
            classic = self._groups.get(group_id)
            if error is not ErrorCode.NONE or classic is None:
                return NO_WRITES
            for member in classic.members.values():
                self._rebalance.keep_alive(classic, member, now)
            if rebalance_reason is None or classic.state is not GroupState.STABLE:
                return NO_WRITES
            return self._rebalance.start(classic, rebalance_reason, now)

        return Writes(tuple(records), follow_up)

    def _classic_record(
        self, group: ConsumerGroup, leaving: Mapping[str, ConsumerMember], joining: ConsumerMember | None
    ) -> CoordinatorRecord:
        """Return the record of the classic group, with the target assignments of its members."""
        # The group exists only to write its record. Replay creates the one that is served.
        classic = Group(group.group_id, MemberMemory(self._config.group_max_member_bytes), None)
        members = {each.member_id: each for each in group.members.values() if each.member_id not in leaving}
        targets = {member_id: group.target_of(member_id) for member_id in members}
        if joining is not None:
            (replaced_id,) = leaving
            members[joining.member_id] = joining
            targets[joining.member_id] = group.target_of(replaced_id)
        classic.convert(group.epochs.group_epoch, map(_classic_member, members.values()))
        assert classic.protocol_name is not None
        assignments = {
            member_id: assignment_bytes(
                targets[member_id], member.metadata(classic.protocol_name), self._topics
            )
            for member_id, member in classic.members.items()
        }
        return group_metadata(classic, assignments)


def _not_upgraded(classic: Group, reason: str) -> KafkaError:
    text = f"Cannot upgrade classic group {classic.group_id} to consumer group because {reason}."
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)


def _consumer_member(
    member: Member, protocol: str, generation: int, partitions: TargetPartitions
) -> ConsumerMember:
    subscription = read_subscription(member.metadata(protocol))
    return ConsumerMember(
        member_id=member.member_id,
        member_epoch=generation,
        previous_member_epoch=generation,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client.client_id,
        client_host=member.client.host,
        subscribed_topic_names=TopicNames.of(subscription.topics),
        assigned={
            topic_id: dict.fromkeys(sorted(indexes), generation) for topic_id, indexes in partitions.items()
        },
        classic=ClassicMemberMetadata(
            session_timeout_ms=member.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=each.name, metadata=each.metadata) for each in member.protocols
            ),
        ),
    )


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None, member.member_id
    return Member(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client=Client(member.client_id, member.client_host),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.classic.session_timeout_ms,
        protocol_type=_CONSUMER,
        protocols=tuple(
            JoinGroupRequestProtocol(name=each.name, metadata=each.metadata)
            for each in member.classic.supported_protocols
        ),
    )


def _all_records(group: ConsumerGroup) -> list[CoordinatorRecord]:
    """Return the records of a whole group."""
    group_id, members = group.group_id, group.members.values()
    return [
        *(member_metadata(group_id, member) for member in members),
        group_epoch(group_id, group.epochs.group_epoch, group.epochs.metadata_hash),
        *(target_assignment(group_id, each.member_id, group.target_of(each.member_id)) for each in members),
        target_assignment_epoch(group_id, group.epochs.assignment_epoch, group.epochs.assignment_wall_ms),
        *(current_assignment(group_id, member) for member in members),
    ]
