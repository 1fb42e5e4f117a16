"""JoinGroup: members join and rejoin.

A dynamic member without an id first gets an id, with which it must join again (KIP-394, from version 4 on).
A client that stops before that therefore adds no member. A static member without an id replaces its earlier
instance (KIP-345, `static_join`).

Source: GroupMetadataManager of Apache Kafka; KIP-394, KIP-800 (reasons are logged).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.member import Client, Member
from tidelog.broker.coordinators.groups.classic.pending import Pending
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord, new_group
from tidelog.broker.coordinators.groups.registry import GroupRegistry, tombstones_of
from tidelog.broker.coordinators.groups.static_join import StaticJoin
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import NO_WRITES, Outcome, error_of_append
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

logger = logging.getLogger(__name__)

UNKNOWN_MEMBER_ID = ""
MEMBER_ID_REQUIRED_FROM_VERSION = 4
PROTOCOLS_MAX = 100
"""The protocols that a member may support; Kafka has no limit. Clients have one for each assignor."""
# Enough to recognize a client in a member id; longer ids could not be written.
_CLIENT_ID_CHARACTERS_MAX = 255

JoinReply = Pending[JoinGroupResponse]


class JoinCommand:
    """Handles JoinGroup. `new_suffix` returns a unique suffix for a member id."""

    def __init__(
        self, groups: GroupRegistry, rebalance: Rebalance, config: GroupConfig, new_suffix: Callable[[], str]
    ) -> None:
        self._groups = groups
        self._rebalance = rebalance
        self._config = config
        self._new_suffix = new_suffix
        self._static = StaticJoin(rebalance)

    def join(
        self, client: Client, request: JoinGroupRequest, version: int, now: Moment
    ) -> Outcome[JoinReply]:
        """Return a reply that completes when the rebalance does, or at once if no wait is needed."""
        reply: JoinReply = Pending()
        try:
            self.check(request)
            self._check_type(request.group_id)
            group = self._groups.get(request.group_id)
            if group is None:
                writes = self._join_new_group(client, request, version, reply, now)
            elif request.member_id == UNKNOWN_MEMBER_ID:
                self._check_room(group, request.member_id)
                writes = self._join_new(group, client, request, version, reply, now)
            else:
                self._check_room(group, request.member_id)
                writes = self._rejoin(group, client, request, reply, now)
        except KafkaError as error:
            logger.info("Group %s rejected a join: %s", request.group_id, error)
            return Outcome(
                Pending.of(
                    JoinGroupResponse(member_id=_member_id_for_error(error, request), error_code=error.code)
                )
            )
        return Outcome(reply, writes)

    def _check_type(self, group_id: str) -> None:
        """Raise INCONSISTENT_GROUP_PROTOCOL for a share group, and for a streams group with members."""
        streams_group = self._groups.streams.find(group_id)
        if group_id in self._groups.shares:
            text = f"group {group_id} is a share group"
        elif streams_group is not None and not streams_group.is_empty:
            text = f"group {group_id} is a streams group"
        else:
            return
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text)

    def check(self, request: JoinGroupRequest) -> None:
        """Raise KafkaError for a request that no group may accept."""
        if not request.group_id:
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
        lowest, highest = (
            self._config.group_min_session_timeout_ms,
            self._config.group_max_session_timeout_ms,
        )
        if not lowest <= request.session_timeout_ms <= highest:
            raise KafkaError(
                ErrorCode.INVALID_SESSION_TIMEOUT,
                f"session timeout {request.session_timeout_ms} ms; allowed are {lowest} to {highest}",
            )
        if len(request.protocols) > PROTOCOLS_MAX:
            text = f"{len(request.protocols)} protocols; at most {PROTOCOLS_MAX} are allowed"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)

    def _check_room(self, group: Group, member_id: str) -> None:
        """Raise GROUP_MAX_SIZE_REACHED if the group has no room for `member_id`.

        During a rebalance, only members that have joined count: if the limit was lowered, the last to join
        are rejected.
        """
        if group.state is GroupState.EMPTY:
            return
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING_REBALANCE:
            has_place = member is not None and member.awaiting_join is not None
            member_count = group.parked_requests.join_count
        else:
            has_place = member is not None
            member_count = len(group.members)
        limit = self._config.group_max_size
        if not has_place and member_count >= limit:
            self._rebalance.evict(group, member_id)
            text = f"group {group.group_id} has {member_count} members, group.max.size is {limit}"
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, text)

    def _join_new_group(
        self, client: Client, request: JoinGroupRequest, version: int, reply: JoinReply, now: Moment
    ) -> Writes:
        """Add the first member of a new group. The group is written, so that a restart restores it."""
        if request.member_id != UNKNOWN_MEMBER_ID:
            text = f"group {request.group_id} of member {request.member_id!r} is unknown"
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
        if not request.protocol_type or not request.protocols:
            raise _inconsistent(request)
        records: list[CoordinatorRecord] = []
        replaced = self._groups.find(request.group_id)
        if replaced is not None:
            logger.info("Group %s: the empty group becomes a classic group", request.group_id)
            records += tombstones_of(replaced)
        group = self._groups.create(request.group_id, now)
        records.append(new_group(group))
        try:
            self._join_new(group, client, request, version, reply, now)
        except KafkaError:
            self._groups.remove(group)
            raise

        def follow_up(error: ErrorCode, now: Moment) -> Writes:
            if error is not ErrorCode.NONE:
                for member in group.members.values():
                    group.parked_requests.complete_join(
                        member, JoinGroupResponse(error_code=error_of_append(error))
                    )
                self._groups.remove(group)
            return NO_WRITES

        return Writes(tuple(records), follow_up)

    def _join_new(
        self,
        group: Group,
        client: Client,
        request: JoinGroupRequest,
        version: int,
        reply: JoinReply,
        now: Moment,
    ) -> Writes:
        """Add a member that has no id yet."""
        if not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            raise _inconsistent(request)
        group.memory.check_join(request.protocols, group.static_member(request.group_instance_id))
        suffix = self._new_suffix()
        if request.group_instance_id is not None:
            member_id = f"{request.group_instance_id[:_CLIENT_ID_CHARACTERS_MAX]}-{suffix}"
            if request.group_instance_id in group.static_members:
                return self._static.replace(group, request, version, member_id, reply, now)
            return self._add(group, client, request, member_id, reply, now)
        member_id = f"{client.client_id[:_CLIENT_ID_CHARACTERS_MAX]}-{suffix}"
        if version < MEMBER_ID_REQUIRED_FROM_VERSION:
            return self._add(group, client, request, member_id, reply, now)
        group.add_pending(member_id)
        self._rebalance.set_session_deadline(group, member_id, now, request.session_timeout_ms)
        reply.complete(JoinGroupResponse(member_id=member_id, error_code=ErrorCode.MEMBER_ID_REQUIRED))
        return NO_WRITES

    def _rejoin(
        self, group: Group, client: Client, request: JoinGroupRequest, reply: JoinReply, now: Moment
    ) -> Writes:
        """Join a member that has an id."""
        member_id = request.member_id
        if not group.supports(request.protocol_type, (protocol.name for protocol in request.protocols)):
            raise _inconsistent(request)
        if member_id in group.pending_members:
            if request.group_instance_id is not None:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"{member_id!r} is the id of a member without group.instance.id",
                )
            group.memory.check_join(request.protocols, None)
            return self._add(group, client, request, member_id, reply, now)
        member = group.check_member(member_id, request.group_instance_id)
        group.memory.check_join(request.protocols, member)
        changed = member.protocols != request.protocols
        is_leader = member_id == group.leader_id
        if group.state is GroupState.COMPLETING_REBALANCE and not changed:
            # The first response may have been lost.
            reply.complete(group.generation_reply(member))
            return NO_WRITES
        if group.state is GroupState.STABLE and not changed and not is_leader:
            reply.complete(group.generation_reply(member))
            return NO_WRITES
        # A leader that rejoins a stable group requests a new assignment, for example because topics changed.
        group.update(member, request.protocols, request.rebalance_timeout_ms, request.session_timeout_ms)
        group.parked_requests.park_join(member, reply)
        role = "leader" if is_leader else "member"
        return self._rebalance.start_or_complete(group, f"{role} {member_id} joined: {_reason(request)}", now)

    def _add(
        self,
        group: Group,
        client: Client,
        request: JoinGroupRequest,
        member_id: str,
        reply: JoinReply,
        now: Moment,
    ) -> Writes:
        member = Member(
            member_id=member_id,
            group_instance_id=request.group_instance_id,
            client=client,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=request.protocols,
            is_new=True,
        )
        reason = f"new member {member_id}: {_reason(request)}"
        return self._rebalance.add_member(group, member, reply, reason, now)


def _reason(request: JoinGroupRequest) -> str:
    return request.reason or "not provided"


def _inconsistent(request: JoinGroupRequest) -> KafkaError:
    names = [protocol.name for protocol in request.protocols]
    return KafkaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"group {request.group_id} does not support type {request.protocol_type!r} with protocols {names}",
    )


def _member_id_for_error(error: KafkaError, request: JoinGroupRequest) -> str:
    """Return the member id of an error response: none if the group has no room for the member."""
    return UNKNOWN_MEMBER_ID if error.code is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
