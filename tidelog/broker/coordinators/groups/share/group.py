"""One share group: its epochs, members, assignments and state partitions. Only replay changes it."""

from __future__ import annotations

from collections.abc import Set
from enum import Enum
from uuid import UUID

from tidelog.broker.coordinators.groups.classic.member_memory import GroupMemory
from tidelog.broker.coordinators.groups.epochs import GroupEpochs
from tidelog.broker.coordinators.groups.members.lookup import NO_TARGET, TargetPartitions, existing_member
from tidelog.broker.coordinators.groups.members.subscribed_names import SubscribedNames
from tidelog.broker.coordinators.groups.share.member import ShareMember, names_of
from tidelog.broker.coordinators.groups.share.state_partitions import StatePartitions


class ShareGroupState(Enum):
    """The state of a share group; the value is its name in admin responses."""

    EMPTY = "Empty"
    STABLE = "Stable"
    DEAD = "Dead"


class ShareGroup:
    """The state of one group."""

    def __init__(self, group_id: str, memory: GroupMemory) -> None:
        self.group_id = group_id
        self.memory = memory
        self.epochs = GroupEpochs()
        self.members: dict[str, ShareMember] = {}
        self.target: dict[str, TargetPartitions] = {}
        self.state_partitions = StatePartitions()
        self.subscribed = SubscribedNames()
        self._has_unassigned: bool | None = None
        """What `has_unassigned_initialized_partitions` returns; None after a change of what it depends on."""

    # State

    @property
    def is_empty(self) -> bool:
        """Whether the group has no members."""
        return not self.members

    @property
    def state(self) -> ShareGroupState:
        """The state of the group."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def set_state_partitions(self, partitions: StatePartitions) -> None:
        """Set the partitions whose state is initialized or changing."""
        self.state_partitions = partitions
        self._has_unassigned = None

    # Members

    def member(self, member_id: str) -> ShareMember:
        """Return a member. Raise UNKNOWN_MEMBER_ID if there is none with this id."""
        return existing_member(self.members, member_id, self.group_id)

    def update_member(self, member: ShareMember) -> None:
        """Add a member, or replace the one with its id."""
        self._count(self.members.get(member.member_id), member)
        self.members[member.member_id] = member

    def remove_member(self, member_id: str) -> None:
        """Remove a member, if there is one with this id."""
        self._count(self.members.pop(member_id, None), None)

    def _count(self, old: ShareMember | None, new: ShareMember | None) -> None:
        self.subscribed.replace(names_of(old), names_of(new))
        self._has_unassigned = None
        for member, change in ((old, -1), (new, 1)):
            if member is not None:
                self.memory.grow(change * member.size_bytes)

    def is_subscribed_to_any(self, names: Set[str]) -> bool:
        """Return whether a member subscribes to one of the topics."""
        return self.subscribed.include_any(names)

    def subscribed_after(self, old: ShareMember | None, new: ShareMember | None) -> SubscribedNames:
        """Return the topics of all members with `new` in place of `old`."""
        if names_of(old) == names_of(new):
            return self.subscribed
        subscribed = self.subscribed.copy()
        subscribed.replace(names_of(old), names_of(new))
        return subscribed

    # Targets

    def target_of(self, member_id: str) -> TargetPartitions:
        """Return the target assignment of a member."""
        return self.target.get(member_id, NO_TARGET)

    def set_target(self, member_id: str, target: TargetPartitions | None) -> None:
        """Set the target assignment of a member; None deletes it."""
        self._has_unassigned = None
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    def has_unassigned_initialized_partitions(self) -> bool:
        """Return whether the targets do not have exactly the initialized partitions of a subscribed topic."""
        if self._has_unassigned is None:
            self._has_unassigned = bool(self.members) and self._find_unassigned()
        return self._has_unassigned

    def _find_unassigned(self) -> bool:
        assigned: dict[UUID, set[int]] = {}
        for target in self.target.values():
            for topic_id, indexes in target.items():
                assigned.setdefault(topic_id, set()).update(indexes)
        return any(
            topic.name in self.subscribed and assigned.get(topic_id, set()) != set(topic.partitions)
            for topic_id, topic in self.state_partitions.initialized.items()
        )
