"""SyncGroup: the leader sends the assignment, and every other member waits for it.

The assignment is valid when it is in the log. Members that do not send SyncGroup within the rebalance
timeout are removed.

Source: GroupMetadataManager of Apache Kafka; KIP-559 (protocol type and name are checked).
"""

from __future__ import annotations

import logging

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.member import Member
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.records.coordinator_records import group_metadata
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome, error_of_append
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

logger = logging.getLogger(__name__)

SyncReply = Pending[SyncGroupResponse]


class SyncCommand:
    """Handles SyncGroup."""

    def __init__(self, groups: GroupRegistry, rebalance: Rebalance) -> None:
        self._groups = groups
        self._rebalance = rebalance

    def sync(self, request: SyncGroupRequest) -> Outcome[SyncReply]:
        """Return a reply that completes with the leader's assignment, or at once in a stable group."""
        try:
            group, member = self._check(request)
        except KafkaError as error:
            logger.info("Group %s rejected a sync: %s", request.group_id, error)
            return Outcome(Pending.of(SyncGroupResponse(error_code=error.code)))
        self._rebalance.on_member_synced(group, member.member_id)
        if group.state is GroupState.STABLE:
            return Outcome(Pending.of(_assignment(group, member)))
        reply: SyncReply = Pending()
        group.parked_requests.park_sync(member, reply)
        if member.member_id != group.leader_id or group.sync_phase.has_assignment(group.generation):
            # A leader that repeats its request waits for its first assignment, which is being written.
            return Outcome(reply)
        return Outcome(reply, self._write_assignments(group, request))

    def _check(self, request: SyncGroupRequest) -> tuple[Group, Member]:
        """Return the group and the member of a request. Raise KafkaError if the request is not allowed."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        group = self._groups.get(request.group_id)
        if group is None or group.state is GroupState.EMPTY:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"group {request.group_id} has no members")
        member = group.check_member(request.member_id, request.group_instance_id)
        check_generation(group, request.generation_id)
        if _differ(request.protocol_type, group.protocol_type) or _differ(
            request.protocol_name, group.protocol_name
        ):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"{request.protocol_type!r} {request.protocol_name!r} instead of "
                f"{group.protocol_type!r} {group.protocol_name!r}",
            )
        if group.state is GroupState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"group {request.group_id} is rebalancing")
        return group, member

    def _write_assignments(self, group: Group, request: SyncGroupRequest) -> Writes:
        """Write the leader's assignment: empty for members that it omits, none for unknown members."""
        sent = {entry.member_id: entry.assignment for entry in request.assignments}
        assignments = {member_id: sent.get(member_id, b"") for member_id in group.members}
        missing = [member_id for member_id in assignments if member_id not in sent]
        if missing:
            logger.warning("Group %s: the leader sent no assignment for members %s", group.group_id, missing)
        generation = group.generation
        group.sync_phase.on_assignment_received(generation)

        def follow_up(error: ErrorCode, now: Moment) -> Writes:
            if group.state is not GroupState.COMPLETING_REBALANCE or group.generation != generation:
                return NO_WRITES
            if error is not ErrorCode.NONE:
                self._rebalance.reset_assignments(group, error_of_append(error), now)
                return self._rebalance.start(group, f"the assignment cannot be written: {error.name}", now)
            self._publish(group, assignments, now)
            return NO_WRITES

        return Writes((group_metadata(group, assignments),), follow_up)

    def _publish(self, group: Group, assignments: dict[str, bytes], now: Moment) -> None:
        """Send every member its assignment and restart the sessions: waiting members sent no heartbeats."""
        for member in group.members.values():
            group.assign(member, assignments[member.member_id])
            if group.parked_requests.complete_sync(member, _assignment(group, member)):
                self._rebalance.keep_alive(group, member, now)
        group.transition(GroupState.STABLE, now)


def check_generation(group: Group, generation: int) -> None:
    """Raise ILLEGAL_GENERATION unless `generation` is the current one."""
    if generation != group.generation:
        raise KafkaError(
            ErrorCode.ILLEGAL_GENERATION,
            f"group {group.group_id} has generation {group.generation}, not {generation}",
        )


def _differ(requested: str | None, actual: str | None) -> bool:
    """Return whether a protocol type or name in a request differs; requests before version 5 have none."""
    return requested is not None and actual is not None and requested != actual


def _assignment(group: Group, member: Member) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type, protocol_name=group.protocol_name, assignment=member.assignment
    )
