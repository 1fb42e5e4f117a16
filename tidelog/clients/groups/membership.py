"""One member's part in the classic group protocol: join, sync, heartbeat, leave.

Pure. The states and the moves between them:

    UNJOINED  not a member        -> JOINING
    JOINING   JoinGroup is sent   -> SYNCING, UNJOINED
    SYNCING   SyncGroup is sent   -> STABLE, UNJOINED
    STABLE    has an assignment   -> JOINING, UNJOINED

Each answer yields a `Step`: what the shell does next. Errors that no retry mends are raised.
The member id survives a lost generation, but not UNKNOWN_MEMBER_ID.

Source: KIP-345 (static members), KIP-394 (member id required), KIP-559, KIP-814.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum, auto

from tidelog.clients.groups.assignors.protocol import PROTOCOL_TYPE
from tidelog.clients.transport.failures import failure, known_code
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


class MemberState(Enum):
    """How far this member is in the current rebalance."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


class Step(Enum):
    """What to do after an answer."""

    PROCEED = auto()
    """It worked; go on."""
    REJOIN = auto()
    """Join again, at once."""
    RETRY = auto()
    """Send the same again after backoff."""
    FIND_COORDINATOR = auto()
    """Look up the coordinator, then go on as before."""


_MOVES = {
    MemberState.UNJOINED: {MemberState.JOINING, MemberState.UNJOINED},
    MemberState.JOINING: {MemberState.SYNCING, MemberState.UNJOINED},
    MemberState.SYNCING: {MemberState.STABLE, MemberState.UNJOINED},
    MemberState.STABLE: {MemberState.JOINING, MemberState.UNJOINED},
}
_COORDINATOR_MOVED = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)


class Membership:
    """The member of one group.

    `needs_join`: a join has to happen before the assignment counts again.
    `lost_partitions`: the assignment was lost without a chance to give it up in order.
    `reading_generation`: the generation that gave the application what it reads, behind `generation` from
    the answer to a join until the application polls.
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
        self.protocol_name: str | None = None
        self.state = MemberState.UNJOINED
        self.needs_join = True
        self.join_reason = "first join"
        self.lost_partitions = False
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._last_heartbeat_ms = 0
        self._last_answer_ms = 0

    # --- joining --------------------------------------------------------------------------

    @property
    def join_timeout_ms(self) -> int:
        """How long JoinGroup and SyncGroup may take: others have `rebalance_timeout_ms` to join."""
        return self._rebalance_timeout_ms + _REBALANCE_MARGIN_MS

    def request_join(self, reason: str, *, lost: bool = False) -> None:
        """Note that a join is needed; `lost`: somebody else may have our partitions already."""
        if not self.needs_join:
            self.join_reason = reason
        self.needs_join = True
        self.lost_partitions |= lost

    def join_request(self, protocols: Sequence[tuple[str, bytes]]) -> JoinGroupRequest:
        """Ask to join with these assignors and their subscriptions, the most wanted first."""
        self._transition(MemberState.JOINING)
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols),
            reason=self.join_reason,
        )

    def joined(self, response: JoinGroupResponse, now_ms: int) -> Step:
        """Take the answer to `join_request`; PROCEED means that SyncGroup comes next."""
        if self.state is not MemberState.JOINING:
            return Step.REJOIN  # a commit of before was told meanwhile that we are no member
        code = known_code(response.error_code)
        if code is ErrorCode.NONE:
            if response.protocol_type not in (None, "", PROTOCOL_TYPE):
                self._transition(MemberState.UNJOINED)
                raise self._fatal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "JoinGroup")
            self._transition(MemberState.SYNCING)
            self.member_id = response.member_id
            self.generation = response.generation_id
            self.protocol_name = response.protocol_name
            self._last_answer_ms = self._last_heartbeat_ms = now_ms
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
        """Whether this member has to assign partitions to all members."""
        return response.leader == response.member_id and not response.skip_assignment

    def sync_request(self, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        """Ask for our assignment; the leader sends everybody's."""
        assert self.state is MemberState.SYNCING
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol_name,
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in assignments.items()
            ),
        )

    def synced(self, response: SyncGroupResponse, now_ms: int) -> Step:
        """Take the answer to `sync_request`; PROCEED means that the assignment counts."""
        code = known_code(response.error_code)
        if code is ErrorCode.NONE:
            self._transition(MemberState.STABLE)
            self.needs_join = False
            self.lost_partitions = False
            self._last_answer_ms = self._last_heartbeat_ms = now_ms
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

    def taken_over(self) -> None:
        """The application reads what the group gave us."""
        assert self.state is MemberState.STABLE
        self.reading_generation = self.generation

    def join_interrupted(self) -> None:
        """JoinGroup or SyncGroup got no answer."""
        if self.state in (MemberState.JOINING, MemberState.SYNCING):
            self._transition(MemberState.UNJOINED)

    # --- staying --------------------------------------------------------------------------

    @property
    def is_member(self) -> bool:
        """Whether the coordinator counts on heartbeats."""
        return self.state in (MemberState.SYNCING, MemberState.STABLE)

    def heartbeat_due_in_ms(self, now_ms: int) -> int:
        """How long until the next heartbeat has to be sent."""
        return max(0, self._last_heartbeat_ms + self._heartbeat_interval_ms - now_ms)

    def session_is_over(self, now_ms: int) -> bool:
        """Whether the coordinator has not answered for a whole session timeout."""
        return now_ms - self._last_answer_ms > self._session_timeout_ms

    def heartbeat_request(self, now_ms: int) -> HeartbeatRequest:
        """Say that we are alive."""
        self._last_heartbeat_ms = now_ms
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.group_instance_id,
        )

    def heartbeat_answered(self, error_code: int, generation: int, now_ms: int) -> Step:
        """Take the answer to a heartbeat that was sent in `generation`."""
        code = known_code(error_code)
        if code is ErrorCode.NONE:
            self._last_answer_ms = now_ms
            return Step.PROCEED
        if generation != self.generation or not self.is_member:
            return Step.PROCEED  # the answer is about a generation that is over
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._last_answer_ms = now_ms
            if self.state is MemberState.STABLE:
                self.request_join("group is rebalancing")
            return Step.PROCEED
        return self.fenced(code, "Heartbeat")

    def fenced(self, code: ErrorCode, what: str) -> Step:
        """Act on an error that says how we stand with the group, from a heartbeat or a commit."""
        if code is ErrorCode.ILLEGAL_GENERATION:
            self._forget_generation()
            self.request_join("generation is over", lost=True)
            return Step.REJOIN
        if code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget_member()
            self.request_join("member id is unknown to the group", lost=True)
            return Step.REJOIN
        if code is ErrorCode.FENCED_INSTANCE_ID:
            self._forget_member()
            self.request_join("another member has the same instance id", lost=True)
        return self._retry_or_raise(code, what)

    # --- leaving --------------------------------------------------------------------------

    @property
    def leaves_on_close(self) -> bool:
        """Whether to say good-bye: static members come back under the same name instead (KIP-345)."""
        return self.group_instance_id is None and self.member_id != ""

    def leave_request(self, version: int, reason: str) -> LeaveGroupRequest:
        """Say that we leave, in the form of `version`."""
        if version < _LEAVE_WITH_MEMBERS_VERSION:
            return LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id)
        identity = MemberIdentity(
            member_id=self.member_id, group_instance_id=self.group_instance_id, reason=reason
        )
        return LeaveGroupRequest(group_id=self.group_id, members=(identity,))

    def left(self, reason: str) -> None:
        """We are not a member any more."""
        self._forget_member()
        self.request_join(reason, lost=True)

    # --- inside ---------------------------------------------------------------------------

    def _transition(self, state: MemberState) -> None:
        assert state in _MOVES[self.state], f"{self.group_id}: {self.state} -> {state}"
        self.state = state

    def _forget_generation(self) -> None:
        self.generation = self.reading_generation = NO_GENERATION
        self.protocol_name = None
        self._transition(MemberState.UNJOINED)

    def _forget_member(self) -> None:
        self.member_id = ""
        self._forget_generation()

    def _retry_or_raise(self, code: ErrorCode, what: str) -> Step:
        if code in _COORDINATOR_MOVED:
            return Step.FIND_COORDINATOR
        if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return Step.RETRY
        if code.retriable:
            return Step.RETRY
        raise self._fatal(code, what)

    def _fatal(self, code: ErrorCode, what: str) -> KafkaError:
        return failure(code, f"{what} of group {self.group_id!r}")
