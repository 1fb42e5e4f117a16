"""Finds the share group of a request."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.protocol.errors import ErrorCode, KafkaError


class ShareGroups(Protocol):
    """The share groups of a partition by id; `tidelog.broker.coordinators.groups.registry` has them."""

    def __contains__(self, group_id: str, /) -> bool:
        """Return whether there is a group of any type with this id."""
        ...

    def share(self, group_id: str) -> ShareGroup | None:
        """Return a group; None if there is none."""
        ...

    def shares(self) -> Collection[ShareGroup]:
        """Return all groups."""
        ...

    def new_share(self, group_id: str) -> ShareGroup:
        """Return a group without members that is not one of this registry yet."""
        ...

    def create_share(self, group_id: str) -> ShareGroup:
        """Create a group without members."""
        ...

    def remove_share(self, group_id: str) -> None:
        """Remove a group, if there is one."""


class ShareGroupLookup:
    """Returns share groups, or the error of a group that is not one."""

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups

    def existing(self, group_id: str, kind: str = "Share group") -> ShareGroup:
        """Return a share group. Raise GROUP_ID_NOT_FOUND, with `kind` in the text, if there is none."""
        group = self._groups.share(group_id)
        if group is None:
            text = f"{kind} {group_id} not found."
            if group_id in self._groups:
                text = f"Group {group_id} is not a share group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return group

    def to_join(self, group_id: str) -> ShareGroup:
        """Return the group, or a new one. Raise GROUP_ID_NOT_FOUND for a group of another type."""
        if group_id not in self._groups:
            return self._groups.new_share(group_id)
        return self.existing(group_id)
