"""LeaveGroup: members leave at once; their sessions need not expire.

An administrator may identify a static member by its instance id alone. Versions below 3 have one member in a
field of its own, and its error is that of the response.

Source: GroupMetadataManager of Apache Kafka; KIP-345, KIP-571, KIP-800.
"""

from __future__ import annotations

import logging

from tidelog.broker.coordinators.groups.group import Group
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.groups.states import GroupState
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NOTHING, Outcome
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)

logger = logging.getLogger(__name__)

BATCH_FROM_VERSION = 3
UNKNOWN_MEMBER_ID = ""


class LeaveCommand:
    """Handles LeaveGroup."""

    def __init__(self, groups: GroupRegistry, rebalance: Rebalance) -> None:
        self._groups = groups
        self._rebalance = rebalance

    def leave(self, request: LeaveGroupRequest, version: int, now: Moment) -> Outcome[LeaveGroupResponse]:
        """Remove each of the members that exists, and rebalance once for all of them."""
        if not request.group_id:
            return Outcome(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        leaving = request.members
        if version < BATCH_FROM_VERSION:
            leaving = (MemberIdentity(member_id=request.member_id),)
        group = self._groups.get(request.group_id)
        results = tuple(self._remove(group, identity) for identity in leaving)
        writes = NOTHING
        left = [result.member_id for result in results if result.error_code == ErrorCode.NONE]
        if group is not None and left:
            writes = self._rebalance_without(group, left, now)
        if version < BATCH_FROM_VERSION:
            return Outcome(LeaveGroupResponse(error_code=results[0].error_code), writes)
        return Outcome(LeaveGroupResponse(members=results), writes)

    def _rebalance_without(self, group: Group, left: list[str], now: Moment) -> Writes:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self._rebalance.start(group, f"members {left} left", now)
        return self._rebalance.complete_if_all_joined(group, now)

    def _remove(self, group: Group | None, identity: MemberIdentity) -> MemberResponse:
        try:
            if group is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group is unknown")
            member_id = _find(group, identity)
        except KafkaError as error:
            return _result(identity, error.code)
        self._rebalance.evict(group, member_id)
        logger.info("group %s: %s left: %s", group.group_id, member_id, identity.reason or "not provided")
        return _result(identity, ErrorCode.NONE)


def _find(group: Group, identity: MemberIdentity) -> str:
    """Return the id of the member. Raise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID if there is none."""
    if identity.member_id == UNKNOWN_MEMBER_ID:
        member_id = group.static_members.get(identity.group_instance_id or "")
        if member_id is None:
            text = f"{group.group_id} has no instance {identity.group_instance_id!r}"
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        return member_id
    if identity.member_id in group.pending_members:
        return identity.member_id
    return group.check_member(identity.member_id, identity.group_instance_id).member_id


def _result(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
    )
