"""One classic group: its members, their votes, and where the rebalance stands.

Invariants: `leader_id` names a member whenever there are members; members that support a
protocol are counted in `_supporters`; a member is in `pending_sync` only between the answer to
its join and its sync.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tidelog.broker.coordinators.groups.member import Member
from tidelog.broker.coordinators.groups.member_memory import MEMBER_BYTES, MemberMemory, size_of
from tidelog.broker.coordinators.groups.pending import Pending
from tidelog.broker.coordinators.groups.states import NEXT_STATES, GroupState
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.codec import decode_prefix
from tidelog.protocol.consumer_protocol import ConsumerProtocolSubscription
from tidelog.protocol.coordinator_records.group_metadata import GroupMetadataValue
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.messages.join_group import (
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from tidelog.protocol.messages.sync_group import SyncGroupResponse

CONSUMER_PROTOCOL_TYPE = "consumer"
NO_LEADER = ""
# The version that stands before every subscription.
_VERSION_BYTES = 2


class Group:
    """Members and rebalance state; `persisted` is what the log says of the group.

    `member_bytes` is what members and given ids keep of `memory`.
    """

    def __init__(self, group_id: str, memory: MemberMemory, state: GroupState = GroupState.EMPTY) -> None:
        self.group_id = group_id
        self.memory = memory
        self.member_bytes = 0
        self.state = state
        self.previous_state = GroupState.DEAD
        self.state_wall_ms: int | None = None
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.subscribed_topics: frozenset[str] | None = None
        self.persisted: GroupMetadataValue | None = None
        # Members that were given an id (KIP-394) and have not come back with it yet.
        # Dictionaries stand in for sets that remember their order, so that runs are repeatable.
        self.pending_members: dict[str, None] = {}
        self.pending_sync: dict[str, None] = {}
        self.initial_delay_ms = 0
        self.initial_remaining_ms: int | None = None
        self.new_member_added = False
        # The last generation for which the leader has handed in an assignment.
        self.handed_in_generation = -1
        self._awaiting_join: dict[Pending[JoinGroupResponse], Member] = {}
        self._supporters: Counter[str] = Counter()

    # State

    def transition(self, state: GroupState, now: Moment | None) -> None:
        """Move to `state`, which the table must allow; `now` None when the moment is of no interest."""
        assert state in NEXT_STATES[self.state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.state_wall_ms = None if now is None else now.wall_ms

    @property
    def is_consumer_group(self) -> bool:
        """Whether the members speak the consumer protocol."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def start_next_generation(self, now: Moment) -> None:
        """Count on; choose the protocol when there are members."""
        self.generation += 1
        self.pending_sync.clear()
        self.protocol_name = self.select_protocol() if self.members else None
        self.update_subscribed_topics()
        target = GroupState.COMPLETING_REBALANCE if self.members else GroupState.EMPTY
        self.transition(target, now)

    # Members

    def add(self, member: Member) -> None:
        """Take in a member; the first one decides the protocol type and leads."""
        if member.group_instance_id is not None:
            assert member.group_instance_id not in self.static_members, member.group_instance_id
            self.static_members[member.group_instance_id] = member.member_id
        if not self.members:
            self.protocol_type = member.protocol_type
        self.leader_id = self.leader_id or member.member_id
        self.forget_given_id(member.member_id)
        self.members[member.member_id] = member
        self._supporters.update(member.protocol_names())
        self._grow(size_of(member))

    def give_id(self, member_id: str) -> None:
        """Expect that a client joins with this id, which it was given."""
        self.pending_members[member_id] = None
        self._grow(MEMBER_BYTES)

    def forget_given_id(self, member_id: str) -> None:
        """Expect nobody with this id any more."""
        if self.pending_members.pop(member_id, self) is not self:
            self._grow(-MEMBER_BYTES)

    def check_memory(self, protocols: tuple[JoinGroupRequestProtocol, ...], member: Member | None) -> None:
        """Check that there is memory for these protocols, in place of those that `member` has.

        Errors: KafkaError, see `MemberMemory.check`.
        """
        additional = MEMBER_BYTES + sum(len(each.name) + len(each.metadata) for each in protocols)
        if member is not None:
            additional -= size_of(member) - len(member.assignment)
        if additional > 0:
            self.memory.check(self.group_id, self.member_bytes, additional)

    def assign(self, member: Member, assignment: bytes) -> None:
        """Give a member its assignment."""
        self._grow(len(assignment) - len(member.assignment))
        member.assignment = assignment

    def forget_members(self) -> None:
        """Count nothing any more: the group is being dropped as a whole."""
        self._grow(-self.member_bytes)

    def _grow(self, size_bytes: int) -> None:
        self.member_bytes += size_bytes
        self.memory.used_bytes += size_bytes

    def remove(self, member_id: str) -> Member | None:
        """Drop a member, whose requests were answered, or a pending one; find a new leader if it led."""
        member = self.members.pop(member_id, None)
        if member is not None:
            assert member.awaiting_join is None and member.awaiting_sync is None, member_id
            self._discount(member)
            self._grow(-size_of(member))
            if member.group_instance_id is not None:
                del self.static_members[member.group_instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.forget_given_id(member_id)
        self.pending_sync.pop(member_id, None)
        return member

    def rename(self, member: Member, member_id: str) -> None:
        """Give a static member the new id with which it came back; nothing else changes."""
        assert member.group_instance_id is not None
        self._grow(len(member_id) - len(member.member_id))
        del self.members[member.member_id]
        if self.leader_id == member.member_id:
            self.leader_id = member_id
        if member.member_id in self.pending_sync:
            del self.pending_sync[member.member_id]
            self.pending_sync[member_id] = None
        member.member_id = member_id
        self.members[member_id] = member
        self.static_members[member.group_instance_id] = member_id

    def update(
        self,
        member: Member,
        protocols: tuple[JoinGroupRequestProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Note what a member wants now."""
        self._discount(member)
        before = size_of(member)
        member.protocols = protocols
        self._grow(size_of(member) - before)
        self._supporters.update(member.protocol_names())
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def check_member(self, member_id: str, group_instance_id: str | None) -> Member:
        """The member that sends a request; FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID if it is not one."""
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
        """Return the static member with this instance id, if there is one."""
        member_id = None if group_instance_id is None else self.static_members.get(group_instance_id)
        return None if member_id is None else self.members[member_id]

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of its members; 0 when it has none."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    # Replies that wait

    @property
    def awaiting_join_count(self) -> int:
        """How many members wait for the answer to their join."""
        return len(self._awaiting_join)

    def member_of_join(self, reply: Pending[JoinGroupResponse]) -> Member | None:
        """Return the member whose join waits for this reply."""
        return self._awaiting_join.get(reply)

    @property
    def all_members_joined(self) -> bool:
        """Whether every member waits and nobody that was given an id is still expected."""
        return len(self.members) == self.awaiting_join_count and not self.pending_members

    def park_join(self, member: Member, reply: Pending[JoinGroupResponse]) -> None:
        """Have `member` wait; a join of it that waits already is told to try again."""
        self.answer_join(
            member,
            JoinGroupResponse(member_id=member.member_id, error_code=ErrorCode.REBALANCE_IN_PROGRESS),
        )
        member.awaiting_join = reply
        self._awaiting_join[reply] = member

    def answer_join(self, member: Member, response: JoinGroupResponse) -> None:
        """Answer the join of `member`, if one waits."""
        if member.awaiting_join is not None:
            reply, member.awaiting_join = member.awaiting_join, None
            del self._awaiting_join[reply]
            reply.complete(response)

    def park_sync(self, member: Member, reply: Pending[SyncGroupResponse]) -> None:
        """Have `member` wait; a sync of it that waits already is told to try again."""
        self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
        member.awaiting_sync = reply

    def answer_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answer the sync of `member`, if one waits; say whether one did."""
        if member.awaiting_sync is None:
            return False
        reply, member.awaiting_sync = member.awaiting_sync, None
        reply.complete(response)
        return True

    def generation_reply(self, member: Member, *, skip_assignment: bool = False) -> JoinGroupResponse:
        """What `member` needs to know of the current generation; the leader also learns of the others."""
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
        """Keep the leader if it has joined, else take one that has; False when nobody joined."""
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
        """Whether a member with these protocols can work with all others; an empty group takes any."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and any(True for _ in names)
        if self.protocol_type != protocol_type:
            return False
        return any(self._supporters[name] == len(self.members) for name in names)

    def _discount(self, member: Member) -> None:
        for name in member.protocol_names():
            self._supporters[name] -= 1
            if self._supporters[name] == 0:
                del self._supporters[name]

    def select_protocol(self) -> str:
        """The protocol that most members want among those that all can work with."""
        candidates = frozenset(
            name for name, supporters in self._supporters.items() if supporters == len(self.members)
        )
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def update_subscribed_topics(self) -> None:
        """Work out the topics its consumers subscribe to; None when that cannot be known.

        Every version of the subscription begins like version 0, so only that much is read.
        """
        self.subscribed_topics = None
        if not self.is_consumer_group:
            return
        topics: set[str] = set()
        if self.members:
            if self.protocol_name is None:
                return
            for member in self.members.values():
                try:
                    subscription, _ = decode_prefix(
                        ConsumerProtocolSubscription, member.metadata(self.protocol_name), 0, _VERSION_BYTES
                    )
                except DecodeError:
                    return
                topics.update(subscription.topics)
        self.subscribed_topics = frozenset(topics)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member consumes `topic`; when unknown, consumers are taken to."""
        if self.subscribed_topics is None:
            return self.is_consumer_group
        return topic in self.subscribed_topics
