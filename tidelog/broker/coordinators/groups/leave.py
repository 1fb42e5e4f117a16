"""LeaveGroup: members leave at once, before their sessions expire.

An administrator may identify a static member by its instance id alone. Versions below 3 have one member in a
field of its own, and its error is that of the response.

Source: GroupMetadataManager of Apache Kafka; KIP-345, KIP-571, KIP-800.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.consumer.classic_members import leaving_member
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.registry import GroupRegistry
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from tidelog.protocol.steps import Steps, run_steps

logger = logging.getLogger(__name__)

BATCH_FROM_VERSION = 3
UNKNOWN_MEMBER_ID = ""
MEMBERS_NAMED_MAX: Final = 20
"""The number of members that the reason of a rebalance lists."""


class PreparedLeave(NamedTuple):
    """The results of a request: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID, or NONE for each of `members`.

    `members` has the identities of members, by their position in `results`.
    """

    results: list[MemberResponse]
    members: dict[int, MemberIdentity]


class LeaveCommand:
    """Handles LeaveGroup."""

    def __init__(self, groups: GroupRegistry, rebalance: Rebalance) -> None:
        self._groups = groups
        self._rebalance = rebalance

    def prepare(self, request: LeaveGroupRequest, version: int) -> Steps[PreparedLeave]:
        """Return the results of the identities that identify no member, and the other identities, in steps.

        If several identify the same member, the first one removes it. `leave` looks up the members again,
        because the group may change between the steps.
        """
        group = self._groups.get(request.group_id) or self._groups.consumers.find(request.group_id)
        member_ids: set[str] = set()
        prepared = PreparedLeave([], {})
        for position, identity in enumerate(_identities(request, version)):
            code = ErrorCode.NONE
            try:
                member_id = _find(group, identity)
            except KafkaError as error:
                code = error.code
            else:
                if member_id in member_ids:
                    code = ErrorCode.UNKNOWN_MEMBER_ID
                else:
                    prepared.members[position] = identity
                member_ids.add(member_id)
            prepared.results.append(_result(identity, code))
            yield None
        return prepared

    def leave(
        self, request: LeaveGroupRequest, version: int, now: Moment, prepared: PreparedLeave | None = None
    ) -> Outcome[LeaveGroupResponse]:
        """Remove each of the members that exists, and rebalance once for all of them.

        `prepared` is the result of `prepare` for the request.
        """
        if not request.group_id:
            return Outcome(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        if prepared is None:
            prepared = run_steps(self.prepare(request, version))
        group = self._groups.get(request.group_id)
        removed_ids: list[str] = []
        results = prepared.results
        for position, identity in prepared.members.items():
            results[position] = self._remove(group, identity, removed_ids)
        writes = (
            NO_WRITES
            if group is None or not removed_ids
            else self._rebalance_without(group, removed_ids, now)
        )
        return Outcome(response_of(results, version), writes)

    def _rebalance_without(self, group: Group, removed_ids: list[str], now: Moment) -> Writes:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self._rebalance.start(group, _reason(removed_ids), now)
        return self._rebalance.complete_if_all_joined(group, now)

    def _remove(
        self, group: Group | None, identity: MemberIdentity, removed_ids: list[str]
    ) -> MemberResponse:
        try:
            member_id = _find(group, identity)
        except KafkaError as error:
            return _result(identity, error.code)
        assert group is not None, "it has the member"
        self._rebalance.evict(group, member_id)
        removed_ids.append(member_id)
        reason = identity.reason or "not provided"
        logger.info("Member %s has left group %s: %s", member_id, group.group_id, reason)
        return _result(identity, ErrorCode.NONE)


def response_of(results: Sequence[MemberResponse], version: int) -> LeaveGroupResponse:
    """Return the response with these results. Versions below 3 have one member."""
    if version < BATCH_FROM_VERSION:
        return LeaveGroupResponse(error_code=results[0].error_code)
    return LeaveGroupResponse(members=tuple(results))


def _identities(request: LeaveGroupRequest, version: int) -> tuple[MemberIdentity, ...]:
    return (
        request.members if version >= BATCH_FROM_VERSION else (MemberIdentity(member_id=request.member_id),)
    )


def _find(group: Group | ConsumerGroup | None, identity: MemberIdentity) -> str:
    """Return the id of the member. Raise UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID if there is none."""
    if isinstance(group, ConsumerGroup):
        return leaving_member(group, identity).member_id
    if group is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "the group is unknown")
    if identity.member_id == UNKNOWN_MEMBER_ID:
        member_id = group.static_members.get(identity.group_instance_id or "")
        if member_id is None:
            text = f"{group.group_id} has no instance {identity.group_instance_id!r}"
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        return member_id
    if identity.member_id in group.pending_members:
        return identity.member_id
    return group.check_member(identity.member_id, identity.group_instance_id).member_id


def _reason(removed_ids: list[str]) -> str:
    more = f" and {len(removed_ids) - MEMBERS_NAMED_MAX} more" if len(removed_ids) > MEMBERS_NAMED_MAX else ""
    return f"members {removed_ids[:MEMBERS_NAMED_MAX]}{more} left"


def _result(identity: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(
        member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=error
    )
