"""The groups of one partition of `__consumer_offsets`, by id."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.broker.coordinators.groups.group import Group
from tidelog.broker.coordinators.groups.member_memory import MemberMemory
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.states import GroupState
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.errors import ErrorCode, KafkaError


class GroupRegistry:
    """Every group that has members, offsets or a record in the log."""

    def __init__(self, rebalance: Rebalance, memory: MemberMemory) -> None:
        self._groups: dict[str, Group] = {}
        self._memory = memory
        self._rebalance = rebalance

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> Group | None:
        """The group, or None."""
        return self._groups.get(group_id)

    def require(self, group_id: str) -> Group:
        """The group, or GROUP_ID_NOT_FOUND."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def create(self, group_id: str, now: Moment | None) -> Group:
        """A new empty group; `now` None while loading, when nobody knows since when it is empty."""
        assert group_id not in self._groups, group_id
        group = Group(group_id, self._memory)
        group.state_wall_ms = None if now is None else now.wall_ms
        self._groups[group_id] = group
        return group

    def remove(self, group: Group) -> None:
        """Drop a group: who waits learns that its member is unknown, and nothing happens to it any more."""
        for member_id in list(group.members):
            self._rebalance.evict(group, member_id)
        self._rebalance.forget_group(group)
        group.forget_members()
        if group.state is not GroupState.DEAD:
            group.transition(GroupState.DEAD, None)
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]

    def clear(self) -> None:
        """Drop all groups at once without a response to anybody."""
        for group in self._groups.values():
            group.forget_members()
        self._groups.clear()
