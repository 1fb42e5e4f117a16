"""One consumer group: its epochs, members, subscriptions and assignments. Only replay changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from enum import Enum

from tidelog.broker.coordinators.groups.classic.member_memory import GroupMemory
from tidelog.broker.coordinators.groups.classic.protocol_support import ProtocolSupport
from tidelog.broker.coordinators.groups.consumer.member import ConsumerMember, MemberState
from tidelog.broker.coordinators.groups.consumer.member_size import size_of, size_of_topics
from tidelog.broker.coordinators.groups.consumer.partition_epochs import NOT_OWNED, PartitionEpochs
from tidelog.broker.coordinators.groups.consumer.subscriptions import ResolvedExpression, Subscriptions
from tidelog.broker.coordinators.groups.epochs import GroupEpochs
from tidelog.broker.coordinators.groups.members.lookup import NO_TARGET, TargetPartitions, existing_member


class ConsumerGroupState(Enum):
    """The state of a consumer group; the value is its name in admin responses.

    It results from the epochs: Empty without members, Assigning while the group epoch has no target
    assignment, Reconciling until all members have reconciled to it, then Stable.
    """

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class ConsumerGroup:
    """The state of one group."""

    def __init__(self, group_id: str, memory: GroupMemory) -> None:
        self.group_id = group_id
        self.memory = memory
        self.epochs = GroupEpochs()
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.subscriptions = Subscriptions()
        self.target: dict[str, TargetPartitions] = {}
        self.partition_epochs = PartitionEpochs(group_id)
        self.classic_member_count = 0
        self.has_partition_metadata_record = False
        self._assignors: Counter[str] = Counter()
        self._classic_protocols = ProtocolSupport()

    # State

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def state(self) -> ConsumerGroupState:
        """The state, in time linear in the number of members."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epochs.group_epoch > self.epochs.assignment_epoch:
            return ConsumerGroupState.ASSIGNING
        epoch = self.epochs.assignment_epoch
        if all(member.is_reconciled_to(epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def record_partition_metadata(self, exists: bool) -> None:
        """Record whether the log has partition metadata of an older version of Kafka for the group."""
        self.has_partition_metadata_record = exists

    # Members

    def member(self, member_id: str) -> ConsumerMember:
        """Return a member. Raise UNKNOWN_MEMBER_ID if there is none with this id."""
        return existing_member(self.members, member_id, self.group_id)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """Return the static member with this instance id; None if there is none."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def update_member(self, member: ConsumerMember) -> None:
        """Add a member, or replace the one with its id."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self._count(old, member)
        if old is not None:
            self.partition_epochs.remove(old)
        self.partition_epochs.add(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if there is one with this id."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count(member, None)
        self.partition_epochs.remove(member)
        instance_id = member.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]

    def _count(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        self.subscriptions.replace(old, new)
        self._assignors = _counted_assignors(self._assignors, old, new)
        if old is not None:
            self.memory.grow(-size_of(old))
            self.classic_member_count -= old.uses_classic_protocol
            self._classic_protocols.remove(old.classic_protocols)
        if new is not None:
            self.memory.grow(size_of(new))
            self.classic_member_count += new.uses_classic_protocol
            self._classic_protocols.add(new.classic_protocols)

    def resolve(self, expression: str, resolved: ResolvedExpression | None) -> None:
        """Set the topics that match an expression; None deletes it."""
        for each, change in ((self.subscriptions.resolved.get(expression), -1), (resolved, 1)):
            if each is not None:
                self.memory.grow(change * size_of_topics(each.topics))
        self.subscriptions.resolve(expression, resolved)

    # Target assignment

    def target_of(self, member_id: str) -> TargetPartitions:
        """Return the target assignment of a member."""
        return self.target.get(member_id, NO_TARGET)

    def set_target(self, member_id: str, partitions: TargetPartitions | None) -> None:
        """Set the target assignment of a member; None deletes it."""
        if partitions is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = partitions

    def preferred_assignor(
        self, old: ConsumerMember | None = None, new: ConsumerMember | None = None
    ) -> str | None:
        """Return the assignor that most members request, with `new` in place of `old`; None without any."""
        counts = _counted_assignors(self._assignors, old, new)
        return max(counts, key=counts.__getitem__, default=None)

    # Members of the classic protocol

    def supports_protocols(self, names: Collection[str]) -> bool:
        """Return whether all members that use the classic protocol support one of `names`."""
        if not self.members:
            return bool(names)
        return self._classic_protocols.includes_common(names, self.classic_member_count)

    def all_use_classic_protocol_without(self, leaving: Mapping[str, ConsumerMember]) -> bool:
        """Return whether all members except `leaving` use the classic protocol."""
        leaving_classic = sum(member.uses_classic_protocol for member in leaving.values())
        return self.classic_member_count - leaving_classic == len(self.members) - len(leaving)

    def waits_for_partition(self, member: ConsumerMember) -> bool:
        """Return whether a partition of a member's target is still owned by another member."""
        return member.state is MemberState.UNRELEASED_PARTITIONS and any(
            index not in member.assigned.get(topic_id, {})
            and self.partition_epochs.of(topic_id, index) != NOT_OWNED
            for topic_id, indexes in self.target_of(member.member_id).items()
            for index in indexes
        )


def _counted_assignors(
    counts: Counter[str], old: ConsumerMember | None, new: ConsumerMember | None
) -> Counter[str]:
    """Return the counts with `new` in place of `old`."""
    old_name = None if old is None else old.server_assignor
    new_name = None if new is None else new.server_assignor
    if old_name == new_name:
        return counts
    result = counts.copy()
    if old_name is not None:
        result[old_name] -= 1
    if new_name is not None:
        result[new_name] += 1
    return +result
