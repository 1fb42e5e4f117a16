"""One classic group: its members, their protocols and the state of the rebalance.

Invariants: `leader_id` is a member whenever there are members; `sync_phase` waits for a member only between
the response to its join and its sync.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.broker.coordinators.groups.classic.group_subscriptions import GroupSubscriptions
from tidelog.broker.coordinators.groups.classic.member import Member
from tidelog.broker.coordinators.groups.classic.member_memory import (
    MEMBER_BYTES,
    GroupMemory,
    MemberMemory,
    size_of,
)
from tidelog.broker.coordinators.groups.classic.parked_requests import ParkedRequests
from tidelog.broker.coordinators.groups.classic.phases import JoinPhase, SyncPhase
from tidelog.broker.coordinators.groups.classic.protocol_support import ProtocolSupport
from tidelog.broker.coordinators.groups.classic.states import NEXT_STATES, GroupState
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.coordinator_records.group_metadata import GroupMetadataValue
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.join_group import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)

CONSUMER_PROTOCOL_TYPE = "consumer"
NO_LEADER = ""


class Group:
    """The members and the rebalance state of one group."""

    def __init__(self, group_id: str, memory: MemberMemory, created: Moment | None) -> None:
        """Create an empty group; `created` is None if its age is unknown."""
        self.group_id = group_id
        self.memory = GroupMemory(group_id, memory)
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.state_wall_ms = None if created is None else created.wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.subscriptions = GroupSubscriptions()
        # Ids that were given to clients (KIP-394) which have not joined with them yet.
        # Dictionaries are used as ordered sets, so that runs are repeatable.
        self.pending_members: dict[str, None] = {}
        self.join_phase = JoinPhase()
        self.sync_phase = SyncPhase()
        self.parked_requests = ParkedRequests()
        self._protocols = ProtocolSupport()

    # State

    def transition(self, state: GroupState, now: Moment | None) -> None:
        """Change to `state`, which the transition table must allow. `now` is None if the time is unknown."""
        assert state in NEXT_STATES[self.state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_wall_ms = None if now is None else now.wall_ms

    @property
    def is_consumer_group(self) -> bool:
        """Whether the members use the consumer protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def start_next_generation(self, now: Moment) -> None:
        """Increment the generation and select its protocol, or make a group without members empty."""
        self.generation += 1
        self.sync_phase.cancel()
        self.protocol_name = self.select_protocol() if self.members else None
        self._update_subscriptions()
        target = GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY
        self.transition(target, now)

    def convert(self, generation: int, members: Iterable[Member]) -> None:
        """Make a new group stable, with the members of a consumer group and the protocol that they prefer."""
        self.generation = generation
        self.state = GroupState.STABLE
        for member in members:
            self.add(member)
        self.protocol_name = self.select_protocol()

    def restore(
        self, record: GroupMetadataValue, members: Iterable[Member], state_wall_ms: int | None
    ) -> None:
        """Set the state of a new group to that of its record: empty, or stable with `members`.

        `state_wall_ms` is None if the record lacks the time of the state.
        """
        self.generation = record.generation
        self.protocol_name = record.protocol
        self.state_wall_ms = state_wall_ms
        for member in members:
            self.add(member)
        self.protocol_type = record.protocol_type or None
        if self.members:
            self.state = GroupState.STABLE
            if record.leader in self.members:
                self.leader_id = record.leader
        self._update_subscriptions()

    def _update_subscriptions(self) -> None:
        self.subscriptions.update(
            self.members.values(), self.protocol_name, is_consumer_group=self.is_consumer_group
        )

    # Members

    def add(self, member: Member) -> None:
        """Add a member. The first one sets the protocol type and is the leader."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, member.group_instance_id
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        self.leader_id = self.leader_id or member.member_id
        self.remove_pending(member.member_id)
        self.members[member.member_id] = member
        self._protocols.add(member.protocol_names())
        self.memory.grow(size_of(member))

    def add_pending(self, member_id: str) -> None:
        """Add a member id that was given to a client, which must join with it."""
        self.pending_members[member_id] = None
        self.memory.grow(MEMBER_BYTES)

    def remove_pending(self, member_id: str) -> None:
        """Remove a pending member id, if it is one."""
        if self.pending_members.pop(member_id, self) is not self:
            self.memory.grow(-MEMBER_BYTES)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Set the assignment of a member."""
        self.memory.grow(len(assignment) - len(member.assignment))
        member.assign(assignment)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member whose requests are complete, or a pending one. Select another leader if needed."""
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.awaiting_join is None and member.awaiting_sync is None, member_id
            self._protocols.remove(member.protocol_names())
            self.memory.grow(-size_of(member))
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.remove_pending(member_id)
        self.sync_phase.on_synced(member_id)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """Set the new id of a static member that has rejoined; nothing else changes."""
        assert member.group_instance_id is not None
        self.memory.grow(len(member_id) - len(member.member_id))
        del self.members[member.member_id]
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        self.sync_phase.rename(member.member_id, member_id)
        member.rename(member_id)
        self.members[member_id] = member
        self.static_members[member.group_instance_id] = member_id

    def update(
        self,
        member: Member,
        protocols: tuple[JoinGroupRequestProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Set the protocols and timeouts of a member."""
        self._protocols.remove(member.protocol_names())
        before = size_of(member)
        member.update(protocols, rebalance_timeout_ms, session_timeout_ms)
        self.memory.grow(size_of(member) - before)
        self._protocols.add(member.protocol_names())

    def check_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """Return the member that sends a request. Raise FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID."""
        if group_instance_id is not None:
            current = self.static_members.get(group_instance_id)
            if current is not None and current != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"{self.group_id}: {group_instance_id!r} is member {current!r}, not {member_id!r}",
                )
            if current is None:
                raise KafkaError(
                    ErrorCode.UNKNOWN_MEMBER_ID, f"{self.group_id} has no instance {group_instance_id!r}"
                )
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{self.group_id} has no member {member_id!r}")
        return member

    def static_member(self, group_instance_id: str | None) -> Member | None:
        """Return the static member with this instance id; None if there is none."""
        member_id = None if group_instance_id is None else self.static_members.get(group_instance_id)
        return None if member_id is None else self.members[member_id]

    def rebalance_timeout_ms(self) -> int:
        """Return the longest rebalance timeout of the members; 0 if there are none."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    @property
    def all_members_joined(self) -> bool:
        """Whether every member waits in JoinGroup and no pending member is expected."""
        return len(self.members) == self.parked_requests.join_count and not self.pending_members

    def generation_reply(self, member: Member, *, skip_assignment: bool = False) -> JoinGroupResponse:
        """Return the response to a join in the current generation. Only the leader gets the members."""
        return JoinGroupResponse(
            member_id=member.member_id,
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader=self.leader_id or NO_LEADER,
            members=self._member_list() if member.member_id == self.leader_id else (),
            skip_assignment=skip_assignment,
        )

    def _member_list(self) -> tuple[JoinGroupResponseMember, ...]:
        assert self.protocol_name is not None
        return tuple(
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                metadata=member.metadata(self.protocol_name),
            )
            for member in self.members.values()
        )

    # Leader and protocol

    def elect_joined_leader(self) -> bool:
        """Keep the leader if it has joined, or select a member that has. Return False if none has."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader_id = member.member_id
                return True
        return False

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether all members support one of `names`. An empty group accepts any protocol."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        return self.protocol_type == protocol_type and self._protocols.includes_common(
            names, len(self.members)
        )

    def select_protocol(self) -> str:
        """Return the protocol that most members prefer among those that all support."""
        return self._protocols.select(list(self.members.values()))
