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
    """All groups that have members, offsets or a record in the log."""

    def __init__(self, rebalance: Rebalance, memory: MemberMemory) -> None:
        self._groups: dict[str, Group] = {}
        self._memory = memory
        self._rebalance = rebalance

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group_id: str) -> Group | None:
        """Return the group; None if there is none."""
        return self._groups.get(group_id)

    def require(self, group_id: str) -> Group:
        """Return the group. Raise GROUP_ID_NOT_FOUND if there is none."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def create(self, group_id: str, now: Moment | None) -> Group:
        """Create an empty group; `now` is None while loading, when its age is unknown."""
        assert group_id not in self._groups, group_id
        group = Group(group_id, self._memory)
        group.state_wall_ms = None if now is None else now.wall_ms
        self._groups[group_id] = group
        return group

    def remove(self, group: Group) -> None:
        """Remove a group. Its waiting requests get UNKNOWN_MEMBER_ID, and its deadlines are cancelled."""
        for member_id in list(group.members):
            self._rebalance.evict(group, member_id)
        self._rebalance.cancel_deadlines(group)
        group.memory.release()
        if group.state is not GroupState.DEAD:
            group.transition(GroupState.DEAD, None)
        if self._groups.get(group.group_id) is group:
            del self._groups[group.group_id]

    def clear(self) -> None:
        """Remove all groups without any response."""
        for group in self._groups.values():
            group.memory.release()
        self._groups.clear()
