"""ShareGroupHeartbeat: members join, stay, change their subscription, receive their assignment, and leave.

| member epoch of the request | meaning |
|-----------------------------|---------|
| 0 | join, or join again |
| -1 | leave |
| above | stay; FENCED_MEMBER_EPOCH unless it is the current or the previous epoch of the member |

Members do not revoke partitions: each gets its whole target at once. A partition whose state is not yet
initialized at the share coordinator is not assigned; the reply has the partitions to initialize.

Source: GroupMetadataManager.shareGroupHeartbeat of Apache Kafka 4.3.1; KIP-932.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.epochs import JOIN_EPOCH, LEAVE_EPOCH
from tidelog.broker.coordinators.groups.members.lookup import TargetPartitions, check_room
from tidelog.broker.coordinators.groups.members.prepared_record import prepare_record
from tidelog.broker.coordinators.groups.members.prepared_subscription import (
    NOT_PREPARED,
    PreparedSubscription,
)
from tidelog.broker.coordinators.groups.members.subscribed_names import SubscribedNames
from tidelog.broker.coordinators.groups.members.topic_names import (
    NamesOfCommand,
    TopicNames,
    is_wide,
    topic_names_in_steps,
)
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.share.config import ShareGroupSettings
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.broker.coordinators.groups.share.initialization_times import InitializationTimes
from tidelog.broker.coordinators.groups.share.lookup import ShareGroupLookup
from tidelog.broker.coordinators.groups.share.member import ShareMember
from tidelog.broker.coordinators.groups.share.records import (
    current_assignment,
    group_epoch,
    member_metadata,
    member_tombstones,
    state_partitions,
)
from tidelog.broker.coordinators.groups.share.state_partitions import Partitions, TopicPartitions
from tidelog.broker.coordinators.groups.share.target_assignment import ShareTarget, ShareTargetAssignment
from tidelog.broker.coordinators.groups.share.timers import ShareMemberTimers
from tidelog.broker.coordinators.share.persister import (
    UNINITIALIZED_START_OFFSET,
    InitialState,
    SharePartitionKey,
)
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Outcome
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tidelog.protocol.messages.share_group_heartbeat import TopicPartitions as AssignedTopic
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)


class ShareHeartbeatReply(NamedTuple):
    """The response, and the states that must be initialized when the records are committed."""

    response: ShareGroupHeartbeatResponse
    to_initialize: list[InitialState]


class _Change(NamedTuple):
    """A group with the change of a command that is not replayed yet: its new epoch, topics and member."""

    group: ShareGroup
    epoch: int
    topics: SubscribedNames
    member: ShareMember
    is_new_epoch: bool


class ShareHeartbeatCommand:
    """Handles ShareGroupHeartbeat, and removes members."""

    def __init__(
        self,
        lookup: ShareGroupLookup,
        settings: ShareGroupSettings,
        topics: Topics,
        timers: ShareMemberTimers,
        times: InitializationTimes,
        names: NamesOfCommand,
    ) -> None:
        self._times = times
        self._names = names
        self._lookup = lookup
        self._settings = settings
        self._topics = topics
        self._timers = timers
        self.targets = ShareTargetAssignment(topics)

    def heartbeat(
        self,
        client: Client,
        request: ShareGroupHeartbeatRequest,
        now: Moment,
        prepared: PreparedSubscription = NOT_PREPARED,
    ) -> Outcome[ShareHeartbeatReply]:
        """Return the epoch of the member, and its assignment if it has changed.

        `prepared` is the result of `prepare` for a wide subscription. Raise KafkaError if the request is
        rejected.
        """
        _check_request(request)
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request)
        is_join = request.member_epoch == JOIN_EPOCH
        group = self._lookup.to_join(request.group_id) if is_join else self._lookup.existing(request.group_id)
        check_room(group.members, request.member_id, self._settings.broker.group_share_max_size, "share")
        previous = self._member(group, request)
        member = _updated(previous, client, request, prepared.names)
        if member.size_bytes > previous.size_bytes or request.member_id not in group.members:
            existing = group.members.get(request.member_id)
            group.memory.check(member.size_bytes - (0 if existing is None else existing.size_bytes))
        records: list[CoordinatorRecord] = []
        change = self._subscribe(group, previous, member, records)
        epoch, target = self._target(change, records, now)
        reconciled = self._reconcile(change, epoch, target, records)
        settings = self._settings.of_group(group.group_id)
        self._timers.keep_alive(group.group_id, member.member_id, settings.session_timeout_ms, now)
        response = ShareGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=reconciled.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        is_full = is_join or request.subscribed_topic_names is not None
        if is_full or previous.assigned != reconciled.assigned:
            response = replace(response, assignment=_assignment(reconciled.assigned))
        to_initialize = self._begin_initialization(change, records, now)
        return Outcome(ShareHeartbeatReply(response, to_initialize), prepared.writes(records))

    def prepare(
        self, group: ShareGroup | None, client: Client, request: ShareGroupHeartbeatRequest
    ) -> Steps[PreparedSubscription]:
        """Prepare a heartbeat whose member, or whose group, has a wide subscription."""
        name_sets = [] if group is None else group.subscribed.sets()
        prepared = NOT_PREPARED
        if is_wide(request.subscribed_topic_names):
            previous = ShareMember(member_id=request.member_id)
            if group is not None:
                previous = group.members.get(request.member_id, previous)
            names = yield from topic_names_in_steps(request.subscribed_topic_names)
            member = _updated(previous, client, request, names)
            record = yield from prepare_record(member_metadata(request.group_id, member))
            prepared = PreparedSubscription(names, record, previous.subscribed_topic_names)
            name_sets.append(names.as_set)
        yield from self._topics.prepare_hash_of(*name_sets)
        return prepared

    # Members

    def _member(self, group: ShareGroup, request: ShareGroupHeartbeatRequest) -> ShareMember:
        """Return the member before the heartbeat; a new one if it joins."""
        if request.member_epoch == JOIN_EPOCH:
            logger.info("Group %s: member %s joins the share group", group.group_id, request.member_id)
            return group.members.get(request.member_id) or ShareMember(member_id=request.member_id)
        member = group.member(request.member_id)
        _check_epoch(member, request.member_epoch)
        return member

    def _leave(self, request: ShareGroupHeartbeatRequest) -> Outcome[ShareHeartbeatReply]:
        group = self._lookup.existing(request.group_id)
        member = group.member(request.member_id)
        logger.info("Group %s: member %s left", group.group_id, member.member_id)
        response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
        return Outcome(ShareHeartbeatReply(response, []), self.remove(group, member))

    def remove(self, group: ShareGroup, member: ShareMember) -> Writes:
        """Return the records that remove a member, which starts a new group epoch."""
        self._timers.cancel(group.group_id, member.member_id)
        metadata_hash = self._topics.hash_of(*group.subscribed_after(member, None).sets())
        epoch = group.epochs.group_epoch + 1
        logger.info("Group %s: group epoch %d after the removal of a member", group.group_id, epoch)
        return Writes(
            (
                *member_tombstones(group.group_id, member.member_id),
                group_epoch(group.group_id, epoch, metadata_hash),
            )
        )

    # Subscription, target and assignment

    def _subscribe(
        self,
        group: ShareGroup,
        previous: ShareMember,
        member: ShareMember,
        records: list[CoordinatorRecord],
    ) -> _Change:
        """Add the records of a changed member, and of a new group epoch if topics or states changed."""
        if previous != member:
            records.append(member_metadata(group.group_id, member))
            self._names.add(member.subscribed_topic_names)
        starts_epoch = previous.subscribed_topic_names != member.subscribed_topic_names
        if group.epochs.assignment_epoch >= group.epochs.group_epoch:
            starts_epoch = starts_epoch or group.has_unassigned_initialized_partitions()
        topics = group.subscribed_after(group.members.get(member.member_id), member)
        epoch = group.epochs.group_epoch
        if starts_epoch or group.epochs.must_check_metadata:
            metadata_hash = self._topics.hash_of(*topics.sets())
            starts_epoch = starts_epoch or metadata_hash != group.epochs.metadata_hash
            if starts_epoch:
                epoch += 1
                records.append(group_epoch(group.group_id, epoch, metadata_hash))
                logger.info("Group %s: group epoch %d, by member %s", group.group_id, epoch, member.member_id)
            group.epochs.on_metadata_checked(epoch)
        return _Change(group, epoch, topics, member, starts_epoch)

    def _target(self, change: _Change, records: list[CoordinatorRecord], now: Moment) -> ShareTarget:
        """Return epoch and target of the member: new ones if the group has a new epoch, else the last."""
        group, member = change.group, change.member
        interval_ms = self._settings.of_group(group.group_id).assignment_interval_ms
        if group.epochs.keeps_assignment(change.epoch, interval_ms, now.wall_ms):
            return ShareTarget(group.epochs.assignment_epoch, group.target_of(member.member_id))
        return self.targets.of_member(group, change.epoch, member, records, now)

    def _reconcile(
        self, change: _Change, epoch: int, target: TargetPartitions, records: list[CoordinatorRecord]
    ) -> ShareMember:
        """Return the member with its target; add its record."""
        member = change.member
        if not change.is_new_epoch and member.is_reconciled_to(epoch):
            return member
        reconciled = member.reconciled(
            epoch, target, self._topics.ids_of(member.subscribed_topic_names.as_set)
        )
        if reconciled != member:
            records.append(current_assignment(change.group.group_id, reconciled))
        return reconciled

    # Initialization of states

    def _begin_initialization(
        self, change: _Change, records: list[CoordinatorRecord], now: Moment
    ) -> list[InitialState]:
        """Return the states of subscribed partitions that have none; add the record of their partitions."""
        group = change.group
        partitions = self._without_state(group, change.topics, now)
        if not partitions:
            return []
        changed = group.state_partitions.begin_initialization(partitions)
        records.append(state_partitions(group.group_id, changed))
        self._times.begin(group.group_id, partitions, now.monotonic_ms)
        return initial_states(group.group_id, change.epoch, partitions)

    def _without_state(self, group: ShareGroup, topics: SubscribedNames, now: Moment) -> Partitions:
        """Return the partitions of topics whose state is neither initialized nor has begun to be."""
        retry_ms = self._settings.broker.group_share_initialize_retry_interval_ms
        known = group.state_partitions
        partitions = {}
        for name in sorted(self._topics.existing(*topics.sets())):
            topic = self._topics.by_name(name)
            assert topic is not None, name
            indexes = set(range(len(topic.partitions)))
            if topic.id in known.initialized:
                indexes -= known.initialized[topic.id].partitions
            elapsed_ms = self._times.elapsed_ms(group.group_id, topic.id, now.monotonic_ms)
            is_in_progress = elapsed_ms is not None and elapsed_ms < retry_ms
            if is_in_progress and topic.id in known.initializing:
                indexes -= known.initializing[topic.id].partitions
            if indexes:
                partitions[topic.id] = TopicPartitions(name, frozenset(indexes))
        return partitions


def initial_states(
    group_id: str,
    state_epoch: int,
    partitions: Partitions,
    start_offsets: Mapping[tuple[UUID, int], int] | None = None,
) -> list[InitialState]:
    """Return the states that initialize `partitions`; without a start offset each is uninitialized."""
    offsets = start_offsets or {}
    return [
        InitialState(
            share_partition=SharePartitionKey(group_id, topic_id, index),
            state_epoch=state_epoch,
            start_offset=offsets.get((topic_id, index), UNINITIALIZED_START_OFFSET),
        )
        for topic_id, topic in partitions.items()
        for index in sorted(topic.partitions)
    ]


def _updated(
    member: ShareMember, client: Client, request: ShareGroupHeartbeatRequest, names: TopicNames | None
) -> ShareMember:
    """Return the member with the fields of a request; those that are not sent are unchanged.

    `names` are the topics of the request if they were prepared.
    """
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        subscribed_topic_names=member.subscribed_topic_names.changed_to(
            request.subscribed_topic_names, names
        ),
        client_id=client.client_id,
        client_host=client.host,
    )


def _assignment(assigned: TargetPartitions) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            AssignedTopic(topic_id=topic_id, partitions=tuple(sorted(indexes)))
            for topic_id, indexes in assigned.items()
        )
    )


def _check_request(request: ShareGroupHeartbeatRequest) -> None:
    """Raise INVALID_REQUEST for a request that no group may accept."""
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.rack_id, "RackId"),
    ):
        if value is not None and not value.strip():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        if not request.subscribed_topic_names:
            text = "SubscribedTopicNames must be set in first request."
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    elif request.member_epoch < LEAVE_EPOCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")


def _check_epoch(member: ShareMember, epoch: int) -> None:
    """Raise FENCED_MEMBER_EPOCH unless the request has the current or the previous epoch of the member."""
    if epoch in (member.member_epoch, member.previous_member_epoch):
        return
    relation, current = "greater", f"({member.member_epoch})"
    if epoch < member.member_epoch:
        relation = "smaller"
        current += f", and it does not match the previous member epoch ({member.previous_member_epoch})"
    text = (
        f"The share group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator {current}. The member must abandon all its partitions and rejoin."
    )
    raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)
