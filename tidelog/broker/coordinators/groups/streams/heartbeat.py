"""StreamsGroupHeartbeat: members join, stay, receive their tasks, request a shutdown, and leave.

| member epoch of the request | meaning |
|-----------------------------|---------|
| 0 | join, or join again |
| -1 | leave |
| above | stay; a smaller epoch than the current one is FENCED_MEMBER_EPOCH, except the previous one of a member whose response was lost |

The response has the tasks of a member if they have changed, or if the member reports other ones: it
may not have received them. Apache Kafka does not repeat the tasks of a lost response. Statuses report why
members have no tasks or no new ones: topics are missing or have wrong partition counts, or the assignment is
delayed.

Source: GroupMetadataManager.streamsGroupHeartbeat of Apache Kafka 4.3.1; KIP-1071.
"""  # noqa: E501

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.topics import Topics
from tidelog.broker.coordinators.groups.epochs import JOIN_EPOCH, LEAVE_EPOCH
from tidelog.broker.coordinators.groups.members.lookup import check_room
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.streams.config import StreamsGroupSettings, StreamsSettings
from tidelog.broker.coordinators.groups.streams.endpoints import endpoint_partitions
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.broker.coordinators.groups.streams.group_update import GroupChange, GroupUpdate
from tidelog.broker.coordinators.groups.streams.heartbeat_checks import (
    check_epoch,
    check_request,
    owned_tasks,
)
from tidelog.broker.coordinators.groups.streams.lookup import StreamsGroupLookup
from tidelog.broker.coordinators.groups.streams.member import MemberState, StreamsMember
from tidelog.broker.coordinators.groups.streams.reconciliation import Reconciliation
from tidelog.broker.coordinators.groups.streams.records import (
    current_assignment,
    group_epoch,
    member_tombstones,
)
from tidelog.broker.coordinators.groups.streams.target_assignment import (
    Target,
    TargetAssignment,
)
from tidelog.broker.coordinators.groups.streams.tasks import Tasks
from tidelog.broker.coordinators.groups.streams.timers import StreamsTimers
from tidelog.broker.coordinators.groups.streams.topic_configuration import InternalTopic
from tidelog.broker.coordinators.groups.streams.topology_status import HeartbeatStatus
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome
from tidelog.protocol.coordinator_records.streams_group import Endpoint
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.messages.streams_group_heartbeat import (
    ResponseTaskIds,
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

logger = logging.getLogger(__name__)

_NOT_SENT = -1


class StreamsHeartbeatReply(NamedTuple):
    """The response, and the internal topics that must be created for its sender."""

    response: StreamsGroupHeartbeatResponse
    topics_to_create: tuple[InternalTopic, ...] = ()


class StreamsHeartbeatCommand:
    """Handles StreamsGroupHeartbeat, and removes members."""

    def __init__(
        self,
        lookup: StreamsGroupLookup,
        settings: StreamsGroupSettings,
        topics: Topics,
        timers: StreamsTimers,
    ) -> None:
        self._lookup = lookup
        self._settings = settings
        self._topics = topics
        self._timers = timers
        self._update = GroupUpdate(topics)
        self.targets = TargetAssignment(timers)

    def heartbeat(
        self, client: Client, request: StreamsGroupHeartbeatRequest, now: Moment
    ) -> Outcome[StreamsHeartbeatReply]:
        """Return the epoch of the member, and its tasks if they have changed.

        Raise KafkaError if the request is rejected.
        """
        check_request(request)
        if request.member_epoch == LEAVE_EPOCH:
            return self._leave(request)
        owned = owned_tasks(request)
        group, records = self._group(request)
        previous = self._member(group, request, owned)
        member = _updated(previous, client, request)
        self._check_memory(group, member)
        settings = self._settings.of_group(group.group_id)
        change = self._update.update(group, (previous, member), request, settings.assignment_configs, records)
        if group.is_empty and settings.initial_rebalance_delay_ms > 0:
            self._timers.delay_assignment(group.group_id, settings.initial_rebalance_delay_ms, now)
        target = self.targets.of_member(
            group, change.epoch, member, change.configured, settings, records, now
        )
        reconciled = self._reconcile(group, member, target, owned, records, now)
        self._timers.keep_alive(group.group_id, member.member_id, settings.session_timeout_ms, now)
        if request.shutdown_application:
            group.request_shutdown(member.member_id)
        change = change._replace(member=reconciled)
        response = self._response(change, previous, request, settings, owned)
        response = replace(response, status=_statuses(change, target))
        return Outcome(StreamsHeartbeatReply(response, change.configured.missing), Writes(tuple(records)))

    # Members

    def _group(self, request: StreamsGroupHeartbeatRequest) -> tuple[StreamsGroup, list[CoordinatorRecord]]:
        if request.member_epoch != JOIN_EPOCH:
            return self._lookup.existing(request.group_id), []
        group, records = self._lookup.to_join(request.group_id)
        check_room(group.members, request.member_id, self._settings.broker.group_streams_max_size, "streams")
        return group, records

    def _member(
        self, group: StreamsGroup, request: StreamsGroupHeartbeatRequest, owned: Tasks | None
    ) -> StreamsMember:
        """Return the member before the heartbeat; a new one if it joins."""
        if request.member_epoch == JOIN_EPOCH:
            logger.info("Group %s: member %s joins the streams group", group.group_id, request.member_id)
            return group.members.get(request.member_id) or StreamsMember(member_id=request.member_id)
        member = group.member(request.member_id)
        check_epoch(member, request.member_epoch, owned)
        return member

    def _check_memory(self, group: StreamsGroup, member: StreamsMember) -> None:
        """Raise KafkaError if there is no memory for a new or larger member."""
        existing = group.members.get(member.member_id)
        group.memory.check(member.size_bytes - (0 if existing is None else existing.size_bytes))

    def _leave(self, request: StreamsGroupHeartbeatRequest) -> Outcome[StreamsHeartbeatReply]:
        group = self._lookup.existing(request.group_id, "Group")
        if request.shutdown_application:
            group.request_shutdown(request.member_id)
        member = group.member(request.member_id)
        logger.info("Group %s: member %s left", group.group_id, member.member_id)
        response = StreamsGroupHeartbeatResponse(
            member_id=request.member_id, member_epoch=request.member_epoch
        )
        return Outcome(StreamsHeartbeatReply(response), self.remove(group, member))

    def remove(self, group: StreamsGroup, member: StreamsMember) -> Writes:
        """Return the records that remove a member, which starts a new group epoch."""
        self._timers.cancel(group.group_id, member.member_id)
        epoch = group.epochs.group_epoch + 1
        logger.info("Group %s: group epoch %d after the removal of a member", group.group_id, epoch)
        return Writes(
            (
                *member_tombstones(group.group_id, member.member_id),
                group_epoch(
                    group.group_id,
                    epoch,
                    group.epochs.metadata_hash,
                    group.validated_topology_epoch,
                    group.assignment_configs,
                ),
            )
        )

    def on_delay_ended(self, group: StreamsGroup, now: Moment) -> Writes:
        """Return the records of the first target of a group, whose members joined during the delay."""
        try:
            configured = None if group.is_empty else self._update.configured(group)
        except KafkaError as error:
            # A source topic has been created meanwhile. The members get the error with their next heartbeats.
            logger.warning("Group %s: its topology cannot be used: %s", group.group_id, error)
            return NO_WRITES
        if configured is None:
            return NO_WRITES
        settings = self._settings.of_group(group.group_id)
        return Writes(tuple(self.targets.of_group(group, configured, settings, now)))

    # Tasks

    def _reconcile(
        self,
        group: StreamsGroup,
        member: StreamsMember,
        target: Target,
        owned: Tasks | None,
        records: list[CoordinatorRecord],
        now: Moment,
    ) -> StreamsMember:
        """Return the member after its next step to the target; add its record."""
        if member.is_reconciled_to(target.epoch):
            return member
        step = Reconciliation(
            target_epoch=target.epoch, target=target.tasks, owners=group.owners, owned=owned
        )
        reconciled = step.next_step(member)
        if reconciled != member:
            records.append(current_assignment(group.group_id, reconciled))
            if reconciled.state is MemberState.UNREVOKED_TASKS:
                self._timers.expect_revocation(group.group_id, reconciled, now)
            else:
                self._timers.end_revocation(group.group_id, reconciled.member_id)
        return reconciled

    # Response

    def _response(
        self,
        change: GroupChange,
        previous: StreamsMember,
        request: StreamsGroupHeartbeatRequest,
        settings: StreamsSettings,
        owned: Tasks | None,
    ) -> StreamsGroupHeartbeatResponse:
        group, member = change.group, change.member
        has_changed = request.member_epoch == JOIN_EPOCH or previous.assigned != member.assigned
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.member_epoch,
            heartbeat_interval_ms=settings.heartbeat_interval_ms,
        )
        if has_changed or (owned is not None and not member.assigned.equals(owned)):
            response = replace(
                response,
                active_tasks=_task_ids(member.assigned.active),
                standby_tasks=_task_ids(member.assigned.standby),
                warmup_tasks=_task_ids(member.assigned.warmup),
            )
        if has_changed and member.user_endpoint is not None:
            group.on_endpoints_changed()
        if group.endpoint_epoch != request.endpoint_information_epoch:
            members = {**group.members, member.member_id: member}.values()
            subtopologies = change.configured.subtopologies or {}
            partitions = endpoint_partitions(members, subtopologies, self._topics)
            response = replace(response, partitions_by_user_endpoint=partitions)
        if self._lookup.has(group):
            response = replace(response, endpoint_information_epoch=group.endpoint_epoch)
        return response


def _statuses(change: GroupChange, target: Target) -> tuple[Status, ...]:
    """Return the statuses of a group, in Kafka's order and with its texts."""
    group, member, statuses = change.group, change.member, []
    if group.topology is not None and member.topology_epoch < group.topology.epoch:
        text = (
            f"The member's topology epoch {member.topology_epoch} is behind the group's topology epoch "
            f"{group.topology.epoch}."
        )
        statuses.append((HeartbeatStatus.STALE_TOPOLOGY, text))
    if target.delay is not None:
        statuses.append((HeartbeatStatus.ASSIGNMENT_DELAYED, target.delay))
    if change.configured.problem is not None:
        statuses.append((change.configured.problem.status, change.configured.problem.detail))
    if group.shutdown_requested_by is not None:
        text = (
            f"Streams group member {group.shutdown_requested_by} encountered a fatal error and requested a "
            "shutdown for the entire application."
        )
        statuses.append((HeartbeatStatus.SHUTDOWN_APPLICATION, text))
    return tuple(Status(status_code=status, status_detail=text) for status, text in statuses)


def _updated(member: StreamsMember, client: Client, request: StreamsGroupHeartbeatRequest) -> StreamsMember:
    """Return the member with the fields of a request; those that are not sent are unchanged."""
    timeout_ms, endpoint, tags = request.rebalance_timeout_ms, request.user_endpoint, request.client_tags
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == _NOT_SENT else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.epoch,
        client_id=client.client_id,
        client_host=client.host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        user_endpoint=(
            member.user_endpoint if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port)
        ),
        client_tags=member.client_tags if tags is None else {tag.key: tag.value for tag in tags},
    )


def _task_ids(tasks: Mapping[str, Collection[int]]) -> tuple[ResponseTaskIds, ...]:
    return tuple(
        ResponseTaskIds(subtopology_id=subtopology_id, partitions=tuple(sorted(tasks[subtopology_id])))
        for subtopology_id in sorted(tasks)
    )
