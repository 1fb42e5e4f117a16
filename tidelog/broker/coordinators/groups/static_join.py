"""A static member joins without a member id and replaces its earlier instance (KIP-345).

The member id of the earlier instance is fenced. In a stable group the other members are not affected: the
member gets its earlier assignment, and only the new id is written. Version 9 lets a leader skip the
assignment (KIP-814); older versions get another leader's id, with the same effect.
"""

from __future__ import annotations

import logging
from typing import TypeAlias

from tidelog.broker.coordinators.groups.classic.group import NO_LEADER, Group
from tidelog.broker.coordinators.groups.classic.member import Member
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.records.coordinator_records import group_metadata
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, error_of_append
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.sync_group import SyncGroupResponse

logger = logging.getLogger(__name__)

SKIP_ASSIGNMENT_FROM_VERSION = 9

# Protocols, rebalance timeout and session timeout of a member.
_Settings: TypeAlias = tuple[tuple[JoinGroupRequestProtocol, ...], int, int]


class StaticJoin:
    """Replaces the instance of a static member."""

    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    def replace(
        self,
        group: Group,
        request: JoinGroupRequest,
        version: int,
        member_id: str,
        reply: Pending[JoinGroupResponse],
        now: Moment,
    ) -> Writes:
        """Replace the instance. Complete the join at once in a stable group, or with the rebalance."""
        assert request.group_instance_id is not None
        old_id = group.static_members[request.group_instance_id]
        member = group.members[old_id]
        leader_before = group.leader_id
        before = (member.protocols, member.rebalance_timeout_ms, member.session_timeout_ms)
        self._fence(group, member)
        group.rename(member, member_id)
        group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        member.on_rebalance_completed()
        self._rebalance.keep_alive(group, member, now)
        group.parked_requests.park_join(member, reply)
        logger.info("Group %s: %s replaces %s", group.group_id, member_id, old_id)
        reason = f"static member {request.group_instance_id} rejoined: {request.reason or 'not provided'}"
        if group.state is GroupState.COMPLETING_REBALANCE:
            # The leader may be computing an assignment with the old id.
            return self._rebalance.start(group, reason, now)
        if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol_name:
            return self._rebalance.start_or_complete(group, reason, now)

        def follow_up(error: ErrorCode, then: Moment) -> Writes:
            if member.awaiting_join is not reply:
                return NO_WRITES
            if error is not ErrorCode.NONE:
                response = _error_response(group, leader_before, error_of_append(error))
                group.parked_requests.complete_join(member, response)
                if group.members.get(member_id) is member:
                    self._restore(group, member, old_id, before, then)
            elif group.state is GroupState.STABLE:
                response = _unchanged_generation(group, member, version, leader_before)
                group.parked_requests.complete_join(member, response)
                # The session may have expired while the member waited for the commit.
                self._rebalance.keep_alive(group, member, then)
            return NO_WRITES

        assignments = {other.member_id: other.assignment for other in group.members.values()}
        return Writes((group_metadata(group, assignments),), follow_up)

    def _fence(self, group: Group, member: Member) -> None:
        """Complete the waiting requests of the earlier instance with FENCED_INSTANCE_ID."""
        group.parked_requests.complete_join(
            member,
            JoinGroupResponse(
                member_id=member.member_id,
                error_code=ErrorCode.FENCED_INSTANCE_ID,
                protocol_name=None,
                leader=NO_LEADER,
            ),
        )
        group.parked_requests.complete_sync(
            member, SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID)
        )
        self._rebalance.cancel_session(group, member.member_id)

    def _restore(self, group: Group, member: Member, old_id: str, before: _Settings, now: Moment) -> None:
        """Restore the earlier id, because the new one could not be written."""
        self._rebalance.cancel_session(group, member.member_id)
        group.rename(member, old_id)
        group.update(member, *before)
        self._rebalance.keep_alive(group, member, now)


def _unchanged_generation(
    group: Group, member: Member, version: int, leader_before: str | None
) -> JoinGroupResponse:
    is_leader = member.member_id == group.leader_id
    if version >= SKIP_ASSIGNMENT_FROM_VERSION:
        return group.generation_reply(member, skip_assignment=is_leader)
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_before or NO_LEADER,
    )


def _error_response(group: Group, leader_before: str | None, error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=error,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=leader_before or NO_LEADER,
    )
