"""The groups of one partition of `__consumer_offsets`, by id."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.member_memory import MemberMemory
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.consumer.records import group_tombstones
from tidelog.broker.coordinators.groups.group_table import GroupTable
from tidelog.broker.coordinators.groups.rebalance import Rebalance
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord, group_tombstone
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.broker.coordinators.groups.share.records import share_group_tombstones
from tidelog.broker.coordinators.groups.streams.group import StreamsGroup
from tidelog.broker.coordinators.groups.streams.records import streams_group_tombstones
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.protocol.errors import ErrorCode, KafkaError

OffsetGroup: TypeAlias = Group | ConsumerGroup | StreamsGroup
"""A group whose members commit offsets."""


class GroupRegistry:
    """All groups with members, offsets or a record in the log: classic, consumer, share, streams groups.

    Invariant: after each replay, a group id belongs to one type.
    """

    def __init__(self, rebalance: Rebalance, memory: MemberMemory) -> None:
        self._groups: dict[str, Group] = {}
        self.consumers = GroupTable(ConsumerGroup, memory)
        self.shares = GroupTable(ShareGroup, memory)
        self.streams = GroupTable(StreamsGroup, memory)
        self._memory = memory
        self._rebalance = rebalance

    def __iter__(self) -> Iterator[Group]:
        """Iterate over the classic groups."""
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        tables = (self._groups, self.consumers, self.shares, self.streams)
        return sum(len(table) for table in tables)

    def __contains__(self, group_id: str) -> bool:
        # Without a loop: this is the question of every committed offset.
        return (
            group_id in self._groups
            or group_id in self.consumers
            or group_id in self.shares
            or group_id in self.streams
        )

    def get(self, group_id: str) -> Group | None:
        """Return the classic group; None if there is none."""
        return self._groups.get(group_id)

    def find(self, group_id: str) -> OffsetGroup | None:
        """Return the group whose members commit offsets, of any such type; None if there is none."""
        return self._groups.get(group_id) or self.consumers.find(group_id) or self.streams.find(group_id)

    def check_has_offsets(self, group_id: str) -> None:
        """Raise GROUP_ID_NOT_FOUND for a share group: its members do not commit offsets."""
        if group_id in self.shares:
            text = f"Group {group_id} is not a consumer group."
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)

    def require(self, group_id: str) -> OffsetGroup | ShareGroup:
        """Return the group of any type. Raise GROUP_ID_NOT_FOUND if there is none."""
        group = self.find(group_id) or self.shares.find(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def create(self, group_id: str, now: Moment | None) -> Group:
        """Create an empty group; `now` is None while loading, when its age is unknown."""
        assert group_id not in self._groups, group_id
        group = self._groups[group_id] = Group(group_id, self._memory, now)
        return group

    def create_consumer(self, group_id: str) -> ConsumerGroup:
        """Create a consumer group without members, in place of a classic group with only offsets."""
        self._remove_classic(group_id)
        return self.consumers.add(group_id)

    def create_streams(self, group_id: str) -> StreamsGroup:
        """Create a streams group without members, in place of a classic group with only offsets."""
        self._remove_classic(group_id)
        return self.streams.add(group_id)

    def _remove_classic(self, group_id: str) -> None:
        classic = self._groups.get(group_id)
        if classic is not None:
            self.remove(classic)

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
        self.consumers.clear()
        self.shares.clear()
        self.streams.clear()


def is_subscribed_to(group: OffsetGroup, topic: str) -> bool:
    """Return whether the members of a group read a topic; if unknown, True for a group of consumers."""
    if isinstance(group, StreamsGroup):
        return group.is_subscribed_to(topic)
    return group.subscriptions.includes(topic)


def tombstones_of(group: OffsetGroup | ShareGroup) -> list[CoordinatorRecord]:
    """Return the records that delete a group without members."""
    if isinstance(group, StreamsGroup):
        return [*streams_group_tombstones(group.group_id, group.members)]
    if isinstance(group, ShareGroup):
        return [*share_group_tombstones(group.group_id, group.members)]
    if isinstance(group, Group):
        return [group_tombstone(group.group_id)]
    return [*group_tombstones(group.group_id, group.members, group.subscriptions.resolved)]
