"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members in a consumer group.

During a migration both protocols are used in one group. The coordinator assigns the partitions of all
members; a classic member gets its assignment by SyncGroup, and its generation is its member epoch. While it
must revoke or get partitions, its heartbeats get REBALANCE_IN_PROGRESS, and it joins again.

Source: GroupMetadataManager.classicGroup*ToConsumerGroup of Apache Kafka 4.3.1; KIP-848.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.broker.coordinators.groups.consumer.command_context import CommandContext
from tidelog.broker.coordinators.groups.consumer.config import MigrationPolicy
from tidelog.broker.coordinators.groups.consumer.embedded_protocol import (
    assignment_bytes,
    owned_partitions,
    read_subscription,
)
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember, MemberState
from tidelog.broker.coordinators.groups.consumer.removal import check_static_member
from tidelog.broker.coordinators.groups.consumer.target_assignment import last_target
from tidelog.broker.coordinators.groups.members.topic_names import TopicNames
from tidelog.broker.coordinators.groups.outcome import FollowUp, Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome, error_of_append
from tidelog.protocol.consumer_protocol import ConsumerProtocolSubscription
from tidelog.protocol.coordinator_records.consumer_group import ClassicMemberMetadata, ClassicProtocol
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from tidelog.protocol.messages.leave_group import MemberIdentity, MemberResponse
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
MEMBER_ID_REQUIRED_FROM_VERSION: Final = 4
_UNKNOWN_MEMBER_ID: Final = ""


class ClassicMembers:
    """The commands of classic members in consumer groups."""

    def __init__(self, context: CommandContext) -> None:
        self._context = context

    # JoinGroup

    def join(
        self,
        group: ConsumerGroup,
        client: Client,
        request: JoinGroupRequest,
        version: int,
        now: Moment,
    ) -> Outcome[Pending[JoinGroupResponse]]:
        """Return a reply that completes when the member's records are committed; errors are in the reply."""
        reply: Pending[JoinGroupResponse] = Pending()
        is_unknown = request.member_id == _UNKNOWN_MEMBER_ID
        member_id = self._context.new_member_id() if is_unknown else request.member_id
        try:
            self._check_join(group, request, member_id)
            if (
                is_unknown
                and request.group_instance_id is None
                and version >= MEMBER_ID_REQUIRED_FROM_VERSION
            ):
                code = ErrorCode.MEMBER_ID_REQUIRED
                return Outcome(Pending.of(JoinGroupResponse(member_id=member_id, error_code=code)))
            writes = self._join(group, client, request, member_id, reply, now)
        except KafkaError as error:
            logger.info("Group %s rejected a join: %s", group.group_id, error)
            rejected_id = "" if error.code is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
            return Outcome(Pending.of(JoinGroupResponse(member_id=rejected_id, error_code=error.code)))
        return Outcome(reply, writes)

    def _check_join(self, group: ConsumerGroup, request: JoinGroupRequest, member_id: str) -> None:
        if self._context.settings.broker.migration_policy is MigrationPolicy.DISABLED:
            text = f"{group.group_id} is a consumer group, and group.consumer.migration.policy is disabled"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
        self._context.lookup.check_room(group, member_id)
        names = [protocol.name for protocol in request.protocols]
        if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not group.supports_protocols(names):
            text = f"the classic members of {group.group_id} do not support one of the protocols {names}"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)

    def _join(
        self,
        group: ConsumerGroup,
        client: Client,
        request: JoinGroupRequest,
        member_id: str,
        reply: Pending[JoinGroupResponse],
        now: Moment,
    ) -> Writes:
        subscription = read_subscription(request.protocols[0].metadata)
        records: list[CoordinatorRecord] = []
        previous = self._find(group, request, member_id, records)
        leaving = {}
        replaced = group.static_member(request.group_instance_id)
        if replaced is not None and not replaced.uses_classic_protocol:
            leaving = {replaced.member_id: replaced}
        downgrades = bool(leaving) and self._context.groups.allows_downgrade(group, leaving, joining=1)
        member = _updated(previous, client, request, subscription)
        self._context.lookup.check_memory(group, previous, member)
        subscribed = self._context.update.subscribe(group, previous, member, records)
        owned = owned_partitions(subscription, self._context.topics)
        if not downgrades:
            member = self._context.update.assign(subscribed, owned, records, now)
            on_joined = self._on_joined(group.group_id, request, member, reply)
            if records:
                return Writes(tuple(records), on_joined)
            return on_joined(ErrorCode.NONE, now)
        if group.epochs.assignment_epoch < subscribed.change.epoch:
            reason = f"the target assignment of {group.group_id} is outdated"
        else:
            reason = None
            target = last_target(subscribed.change)
            member = self._context.update.reconcile(subscribed, target, owned, records, now)
        writes = self._context.groups.downgrade(group, leaving, member, records, reason)
        return writes._replace(follow_up=_then(writes.follow_up, _respond(member, reply)))

    def _find(
        self,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        member_id: str,
        records: list[CoordinatorRecord],
    ) -> ConsumerMember:
        """Return the member before the join; a new one if it has no id yet."""
        instance_id = request.group_instance_id
        if instance_id is not None and request.member_id != _UNKNOWN_MEMBER_ID:
            return check_static_member(group, member_id, instance_id)
        return self._context.lookup.join(group, member_id, instance_id, records, is_classic=True)

    def _on_joined(
        self,
        group_id: str,
        request: JoinGroupRequest,
        member: ConsumerMember,
        reply: Pending[JoinGroupResponse],
    ) -> FollowUp:
        respond = _respond(member, reply)

        def follow_up(error: ErrorCode, now: Moment) -> Writes:
            if error is ErrorCode.NONE:
                self._context.timers.on_joined(group_id, member, now)
                self._context.timers.keep_alive(group_id, member.member_id, request.session_timeout_ms, now)
            return respond(error, now)

        return follow_up

    # SyncGroup and Heartbeat

    def sync(self, group: ConsumerGroup, request: SyncGroupRequest, now: Moment) -> SyncGroupResponse:
        """Return the current assignment of a member; errors are in the response."""
        try:
            member, classic = _check_member(group, request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
            _check_protocol(classic, request)
            if (
                group.epochs.assignment_epoch > member.member_epoch
                and member.state is not MemberState.UNREVOKED_PARTITIONS
            ):
                self._context.timers.expect_join(group.group_id, member, now)
                text = f"group {group.group_id} has assignment epoch {group.epochs.assignment_epoch}"
                raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, text)
        except KafkaError as error:
            logger.debug("Group %s rejected a sync: %s", group.group_id, error)
            return SyncGroupResponse(error_code=error.code)
        self._context.timers.on_synced(group.group_id, member.member_id)
        self._context.timers.keep_alive(group.group_id, member.member_id, classic.session_timeout_ms, now)
        return SyncGroupResponse(
            protocol_type=request.protocol_type,
            protocol_name=request.protocol_name,
            assignment=assignment_bytes(
                member.assigned, classic.supported_protocols[0].metadata, self._context.topics
            ),
        )

    def heartbeat(self, group: ConsumerGroup, request: HeartbeatRequest, now: Moment) -> HeartbeatResponse:
        """Restart the session of a member. Return REBALANCE_IN_PROGRESS if it must join again."""
        try:
            member, classic = _check_member(group, request.member_id, request.group_instance_id)
            _check_generation(member, request.generation_id)
        except KafkaError as error:
            logger.debug("Group %s rejected a heartbeat: %s", group.group_id, error)
            return HeartbeatResponse(error_code=error.code)
        self._context.timers.keep_alive(group.group_id, member.member_id, classic.session_timeout_ms, now)
        must_join = (
            member.member_epoch < group.epochs.assignment_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (member.state is MemberState.UNRELEASED_PARTITIONS and not group.waits_for_partition(member))
        )
        if must_join:
            self._context.timers.expect_join(group.group_id, member, now)
            return HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        return HeartbeatResponse()

    # LeaveGroup

    def leave(
        self, group: ConsumerGroup, identities: Iterable[MemberIdentity]
    ) -> Outcome[list[MemberResponse]]:
        """Remove members, of either protocol; their errors are in the reply."""
        leaving: dict[str, ConsumerMember] = {}
        responses = []
        for identity in identities:
            error = ErrorCode.NONE
            try:
                member = leaving_member(group, identity)
            except KafkaError as failure:
                error = failure.code
            else:
                leaving[member.member_id] = member
            responses.append(
                MemberResponse(
                    member_id=identity.member_id,
                    group_instance_id=identity.group_instance_id,
                    error_code=error,
                )
            )
        return Outcome(responses, self._context.removal.remove(group, leaving))


def leaving_member(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerMember:
    """Return the member that leaves. Raise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID if there is none."""
    instance_id = identity.group_instance_id
    if instance_id is None:
        return group.member(identity.member_id)
    member_id = identity.member_id
    if member_id == _UNKNOWN_MEMBER_ID:
        member_id = group.static_members.get(instance_id, _UNKNOWN_MEMBER_ID)
    return check_static_member(group, member_id, instance_id)


def _updated(
    member: ConsumerMember,
    client: Client,
    request: JoinGroupRequest,
    subscription: ConsumerProtocolSubscription,
) -> ConsumerMember:
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        subscribed_topic_names=TopicNames.of(subscription.topics),
        subscribed_topic_regex="",
        client_id=client.client_id,
        client_host=client.host,
        classic=ClassicMemberMetadata(
            session_timeout_ms=request.session_timeout_ms,
            supported_protocols=tuple(
                ClassicProtocol(name=each.name, metadata=each.metadata) for each in request.protocols
            ),
        ),
    )


def _respond(member: ConsumerMember, reply: Pending[JoinGroupResponse]) -> FollowUp:
    """Return a follow-up that completes the reply to a join."""

    def follow_up(error: ErrorCode, now: Moment) -> Writes:
        if error is not ErrorCode.NONE:
            reply.complete(JoinGroupResponse(error_code=error_of_append(error)))
            return NO_WRITES
        assert member.classic is not None
        reply.complete(
            JoinGroupResponse(
                member_id=member.member_id,
                generation_id=member.member_epoch,
                protocol_type=CONSUMER_PROTOCOL_TYPE,
                protocol_name=member.classic.supported_protocols[0].name,
            )
        )
        return NO_WRITES

    return follow_up


def _then(first: FollowUp | None, second: FollowUp) -> FollowUp:
    """Return a follow-up that calls both; the writes are those of `first`."""

    def follow_up(error: ErrorCode, now: Moment) -> Writes:
        writes = NO_WRITES if first is None else first(error, now)
        second(error, now)
        return writes

    return follow_up


def _check_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None
) -> tuple[ConsumerMember, ClassicMemberMetadata]:
    """Return the classic member that sends a request. Raise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    if instance_id is None:
        member = group.member(member_id)
    else:
        member = check_static_member(group, member_id, instance_id)
    if member.classic is None:
        text = f"Member {member_id} does not use the classic protocol."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
    return member, member.classic


def _check_generation(member: ConsumerMember, generation: int) -> None:
    if generation != member.member_epoch:
        text = f"member {member.member_id} has epoch {member.member_epoch}, not generation {generation}"
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION, text)


def _check_protocol(classic: ClassicMemberMetadata, request: SyncGroupRequest) -> None:
    name = classic.supported_protocols[0].name
    differs = request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
    if differs or request.protocol_name not in (None, name):
        text = f"protocol {request.protocol_type}/{request.protocol_name}; allowed is consumer/{name}"
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)
