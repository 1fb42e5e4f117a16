"""Finds the streams group of a request.

Source: GroupMetadataManager.getOrCreateStreamsGroup of Apache Kafka 4.3.1.
"""

from __future__ import annotations

import logging
from typing import NamedTuple, Protocol

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.group_table import GroupTable
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord, group_tombstone
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)


class StreamsGroupToJoin(NamedTuple):
    """A group that a member joins, and the records that delete the classic group that it replaces."""

    group: StreamsGroup
    records: list[CoordinatorRecord]


class StreamsGroups(Protocol):
    """The groups of a partition by id; `tidelog.broker.coordinators.groups.registry` has them."""

    @property
    def streams(self) -> GroupTable[StreamsGroup]:
        """The streams groups."""
        ...

    def __contains__(self, group_id: str, /) -> bool:
        """Return whether there is a group of any type with this id."""
        ...

    def get(self, group_id: str) -> Group | None:
        """Return a classic group; None if there is none."""
        ...

    def create_streams(self, group_id: str) -> StreamsGroup:
        """Create a group without members, in place of a classic group with only offsets."""
        ...


class StreamsGroupLookup:
    """Returns streams groups, or the error of a group that is not one."""

    def __init__(self, groups: StreamsGroups) -> None:
        self._groups = groups

    def existing(self, group_id: str, kind: str = "Streams group") -> StreamsGroup:
        """Return a streams group. Raise GROUP_ID_NOT_FOUND, with `kind` in the text, if there is none."""
        group = self._groups.streams.find(group_id)
        if group is None:
            text = f"{kind} {group_id} not found."
            if group_id in self._groups:
                text = f"Group {group_id} is not a streams group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)
        return group

    def to_join(self, group_id: str) -> StreamsGroupToJoin:
        """Return the group, or a new one, which may replace a classic group without members.

        Raise GROUP_ID_NOT_FOUND for another group that is not a streams group.
        """
        if group_id not in self._groups:
            return StreamsGroupToJoin(self._groups.streams.new(group_id), [])
        classic = self._groups.get(group_id)
        if classic is not None and not classic.members:
            logger.info("Group %s: the empty classic group becomes a streams group", group_id)
            return StreamsGroupToJoin(self._groups.streams.new(group_id), [group_tombstone(group_id)])
        return StreamsGroupToJoin(self.existing(group_id), [])

    def has(self, group: StreamsGroup) -> bool:
        """Return whether a group is served, and not one that a member only begins to create."""
        return self._groups.streams.find(group.group_id) is group
