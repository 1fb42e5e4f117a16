"""Finds the share group of a request."""

from __future__ import annotations

from typing import Protocol

from tidelog.broker.coordinators.groups.group_table import GroupTable
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.protocol.errors import ErrorCode, KafkaError


class ShareGroups(Protocol):
    """The groups of a partition by id; `tidelog.broker.coordinators.groups.registry` has them."""

    def __contains__(self, group_id: str, /) -> bool:
        """Return whether there is a group of any type with this id."""
        ...

    @property
    def shares(self) -> GroupTable[ShareGroup]:
        """The share groups."""
        ...


class ShareGroupLookup:
    """Returns share groups, or the error of a group that is not one."""

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups

    def existing(self, group_id: str, kind: str = "Share group") -> ShareGroup:
        """Return a share group. Raise GROUP_ID_NOT_FOUND, with `kind` in the text, if there is none."""
        group = self._groups.shares.find(group_id)
        if group is None:
            text = f"{kind} {group_id} not found."
            if group_id in self._groups:
                text = f"Group {group_id} is not a share group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return group

    def to_join(self, group_id: str) -> ShareGroup:
        """Return the group, or a new one. Raise GROUP_ID_NOT_FOUND for a group of another type."""
        if group_id not in self._groups:
            return self._groups.shares.new(group_id)
        return self.existing(group_id)
