"""One member of a classic group: join, sync, heartbeat, leave.

Pure. The states and their transitions:

    UNJOINED  not a member        -> JOINING
    JOINING   JoinGroup is sent   -> SYNCING, UNJOINED
    SYNCING   SyncGroup is sent   -> STABLE, UNJOINED
    STABLE    has an assignment   -> JOINING, UNJOINED

Each response results in a `Step`: what the shell does next. Fatal errors are raised. The member keeps its id
when its generation is lost, but not after UNKNOWN_MEMBER_ID.

Source: KIP-345 (static members), KIP-394 (member id required), KIP-559, KIP-814.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

from tidelog.clients.groups.assignors.protocol import PROTOCOL_TYPE
from tidelog.clients.transport.failures import COORDINATOR_MOVED, failure, known_code
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.heartbeat import HeartbeatRequest
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

NO_GENERATION = -1
_REBALANCE_MARGIN_MS = 5_000
_LEAVE_WITH_MEMBERS_VERSION = 3
_FENCING = (ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)


class MemberState(Enum):
    """The state of the member; the transitions are at the beginning of this file."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


class Step(Enum):
    """The next step after a response."""

    PROCEED = auto()
    """Continue: the request succeeded."""
    REJOIN = auto()
    """Join again without delay."""
    RETRY = auto()
    """Send the same request again after backoff."""
    FIND_COORDINATOR = auto()
    """Look up the coordinator, then send the same request again."""


_TRANSITIONS = {
    MemberState.UNJOINED: {MemberState.JOINING, MemberState.UNJOINED},
    MemberState.JOINING: {MemberState.SYNCING, MemberState.UNJOINED},
    MemberState.SYNCING: {MemberState.STABLE, MemberState.UNJOINED},
    MemberState.STABLE: {MemberState.JOINING, MemberState.UNJOINED},
}


class Membership:
    """The member of one group.

    `needs_join`: the member has to join before its assignment is valid again.
    `lost_partitions`: the assignment was lost, so its partitions cannot be revoked in order.
    `reading_generation`: the generation of the partitions that the application reads. It is older than
    `generation` from the response to a join until the application polls.
    """

    def __init__(
        self,
        group_id: str,
        *,
        group_instance_id: str | None,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        heartbeat_interval_ms: int,
    ) -> None:
        self.group_id = group_id
        self.group_instance_id = group_instance_id
        self.member_id = ""
        self.generation = self.reading_generation = NO_GENERATION
        self._protocol_name: str | None = None
        self.state = MemberState.UNJOINED
        self.needs_join = True
        self._join_reason = "first join"
        self.lost_partitions = False
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._last_heartbeat_ms = 0
        self._last_response_ms = 0

    # --- joining --------------------------------------------------------------------------

    @property
    def join_timeout_ms(self) -> int:
        """The timeout of JoinGroup and SyncGroup: other members have `rebalance_timeout_ms` to join."""
        return self._rebalance_timeout_ms + _REBALANCE_MARGIN_MS

    def request_join(self, reason: str, *, lost: bool = False) -> None:
        """Record that a join is needed; `lost`: another member may already have the partitions."""
        if not self.needs_join:
            self._join_reason = reason
        self.needs_join = True
        self.lost_partitions |= lost

    def on_lost_partitions_revoked(self) -> None:
        """Record that the application does not use the lost partitions any more."""
        self.lost_partitions = False

    def join_request(self, protocols: Sequence[tuple[str, bytes]]) -> JoinGroupRequest:
        """Return a JoinGroup request with assignors and their subscriptions, in order of preference."""
        self._transition(MemberState.JOINING)
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols),
            reason=self._join_reason,
        )

    def on_join_response(self, response: JoinGroupResponse, now_ms: int) -> Step:
        """Act on a JoinGroup response; after PROCEED, send SyncGroup."""
        if self.state is not MemberState.JOINING:
            return Step.REJOIN  # the error of an earlier commit has ended the membership
        code = known_code(response.error_code)
        if code is ErrorCode.NONE:
            if response.protocol_type not in (None, "", PROTOCOL_TYPE):
                self._transition(MemberState.UNJOINED)
                raise self._fatal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "JoinGroup")
            self._transition(MemberState.SYNCING)
            self.member_id = response.member_id
            self.generation = response.generation_id
            self._protocol_name = response.protocol_name
            self._last_response_ms = self._last_heartbeat_ms = now_ms
            return Step.PROCEED
        self._transition(MemberState.UNJOINED)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
            return Step.REJOIN
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_member()
            return Step.REJOIN
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return Step.REJOIN
        return self._retry_or_raise(code, "JoinGroup")

    def is_leader(self, response: JoinGroupResponse) -> bool:
        """Return whether this member has to assign partitions to all members."""
        return response.leader == response.member_id and not response.skip_assignment

    def sync_request(self, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        """Return a SyncGroup request; the leader sends the assignments of all members."""
        assert self.state is MemberState.SYNCING
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self._protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in assignments.items()
            ),
        )

    def on_sync_response(self, response: SyncGroupResponse, now_ms: int) -> Step:
        """Act on a SyncGroup response; after PROCEED, the assignment is valid."""
        code = known_code(response.error_code)
        if code is ErrorCode.NONE:
            self._transition(MemberState.STABLE)
            self.needs_join = False
            self.lost_partitions = False
            self._last_response_ms = self._last_heartbeat_ms = now_ms
            return Step.PROCEED
        self._transition(MemberState.UNJOINED)
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_member()
            return Step.REJOIN
        if code is ErrorCode.ILLEGAL_GENERATION:
            self._forget_generation()
            return Step.REJOIN
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return Step.REJOIN
        return self._retry_or_raise(code, "SyncGroup")

    def on_assignment_applied(self) -> None:
        """Record that the application reads the partitions of the current generation."""
        assert self.state is MemberState.STABLE
        self.reading_generation = self.generation

    def on_join_interrupted(self) -> None:
        """Record that JoinGroup or SyncGroup has no response."""
        if self.state in (MemberState.JOINING, MemberState.SYNCING):
            self._transition(MemberState.UNJOINED)

    # --- heartbeats -----------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        """Whether the coordinator expects heartbeats."""
        return self.state in (MemberState.SYNCING, MemberState.STABLE)

    def next_heartbeat_ms(self, now_ms: int) -> int:
        """Return the time until the next heartbeat has to be sent."""
        return max(0, self._last_heartbeat_ms + self._heartbeat_interval_ms - now_ms)

    def has_session_expired(self, now_ms: int) -> bool:
        """Return whether the coordinator has not responded for a whole session timeout."""
        return now_ms - self._last_response_ms > self._session_timeout_ms

    def heartbeat_request(self, now_ms: int) -> HeartbeatRequest:
        """Return a Heartbeat request."""
        self._last_heartbeat_ms = now_ms
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )

    def on_heartbeat_response(self, error_code: int, generation: int, now_ms: int) -> Step:
        """Act on the response to a heartbeat that was sent in `generation`."""
        code = known_code(error_code)
        if code is ErrorCode.NONE:
            self._last_response_ms = now_ms
            return Step.PROCEED
        if generation != self.generation or not self.is_member:
            return Step.PROCEED  # the response is about an old generation
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._last_response_ms = now_ms
            if self.state is MemberState.STABLE:
                self.request_join("group is rebalancing")
            return Step.PROCEED
        return self._on_member_error(code, "Heartbeat")

    def _on_member_error(self, code: ErrorCode, api: str) -> Step:
        """Act on an error about the membership, from a heartbeat or a commit."""
        if code is ErrorCode.ILLEGAL_GENERATION:
            self._forget_generation()
            self.request_join("generation is not current", lost=True)
            return Step.REJOIN
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_member()
            self.request_join("member id is unknown to the group", lost=True)
            return Step.REJOIN
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self._forget_member()
            self.request_join("another member has the same instance id", lost=True)
        return self._retry_or_raise(code, api)

    @property
    def may_commit(self) -> bool:
        """Whether the member has a valid assignment."""
        return self.state is MemberState.STABLE

    def on_commit_error(self, code: ErrorCode) -> None:
        """Act on the error of a commit in the current generation."""
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self.request_join("group is rebalancing")
        elif code in _FENCING:
            self._on_member_error(code, "OffsetCommit")

    # --- leaving --------------------------------------------------------------------------

    @property
    def leaves_on_close(self) -> bool:
        """Whether to send LeaveGroup: static members return with the same instance id instead (KIP-345)."""
        return self.group_instance_id is None and self.member_id != ""

    def leave_request(self, version: int, reason: str) -> LeaveGroupRequest:
        """Return a LeaveGroup request for `version`."""
        if version < _LEAVE_WITH_MEMBERS_VERSION:
            return LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        identity = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.group_instance_id, reason=reason
        )
        return LeaveGroupRequest(group_id=self.group_id, members=(identity,))

    def on_left(self, reason: str) -> None:
        """Record that the member has left the group."""
        self._forget_member()
        self.request_join(reason, lost=True)

    # --- inside ---------------------------------------------------------------------------

    def _transition(self, state: MemberState) -> None:
        assert state in _TRANSITIONS[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state

    def _forget_generation(self) -> None:
        self.generation = self.reading_generation = NO_GENERATION
        self._protocol_name = None
        self._transition(MemberState.UNJOINED)

    def _forget_member(self) -> None:
        self.member_id = ""
        self._forget_generation()

    def _retry_or_raise(self, code: ErrorCode, api: str) -> Step:
        if code in COORDINATOR_MOVED:
            return Step.FIND_COORDINATOR
        if code.retriable:
            return Step.RETRY
        raise self._fatal(code, api)

    def _fatal(self, code: ErrorCode, api: str) -> KafkaError:
        return failure(code, f"{api} of group {self.group_id!r}")
