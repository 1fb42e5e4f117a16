"""The groups of one type in one partition of `__consumer_offsets`, by id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

from tidelog.broker.coordinators.groups.classic.member_memory import GroupMemory, MemberMemory


class _WithMemory(Protocol):
    """A group that counts the memory of its members."""

    @property
    def memory(self) -> GroupMemory:
        """The memory of the group."""
        ...


GroupT = TypeVar("GroupT", bound=_WithMemory)


class GroupTable(Generic[GroupT]):
    """The groups of one type, which `create` returns for an id and its memory."""

    def __init__(self, create: Callable[[str, GroupMemory], GroupT], memory: MemberMemory) -> None:
        self._create = create
        self._memory = memory
        self._groups: dict[str, GroupT] = {}

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[GroupT]:
        """Iterate over the groups; groups may be added and removed meanwhile."""
        return iter(list(self._groups.values()))

    def find(self, group_id: str) -> GroupT | None:
        """Return a group; None if there is none."""
        return self._groups.get(group_id)

    def new(self, group_id: str) -> GroupT:
        """Return a group without members that is not in this table yet."""
        return self._create(group_id, GroupMemory(group_id, self._memory))

    def add(self, group_id: str) -> GroupT:
        """Add a group without members."""
        group = self._groups[group_id] = self.new(group_id)
        return group

    def remove(self, group_id: str) -> None:
        """Remove a group, if there is one."""
        group = self._groups.pop(group_id, None)
        if group is not None:
            group.memory.release()

    def clear(self) -> None:
        """Remove all groups."""
        for group in self._groups.values():
            group.memory.release()
        self._groups.clear()
