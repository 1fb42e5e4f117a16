"""Removes offsets that are no longer needed, and then their groups.

An offset is kept for `offsets.retention.minutes` (KIP-211)
- after the group became empty, or after the commit if it is unknown when the group became empty;
- after the commit for simple consumers, which never join a group;
- after the commit in a stable classic group of consumers that does not subscribe to the topic any more;
- after the commit in a consumer group that does not subscribe to the topic, in every state;
- after the commit in a streams group without members, or whose topology does not read the topic.
In all other states offsets are kept. A commit with its own expiry (versions 2-4) expires then instead.

If an old record does not have the time when the group became empty, the time of the commit counts, not the
time 0 (KAFKA-8069).

Source: ClassicGroup.offsetExpirationCondition and OffsetMetadataManager of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tidelog.broker.coordinators.groups.classic.group import Group
from tidelog.broker.coordinators.groups.classic.states import GroupState
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.offset_store import OffsetStore
from tidelog.broker.coordinators.groups.outcome import Writes
from tidelog.broker.coordinators.groups.records.coordinator_records import CoordinatorRecord
from tidelog.broker.coordinators.groups.records.offset_records import (
    CommittedOffset,
    OffsetKey,
    offset_tombstone,
)
from tidelog.broker.coordinators.groups.registry import (
    GroupRegistry,
    OffsetGroup,
    is_subscribed_to,
    tombstones_of,
)
from tidelog.broker.coordinators.shared.moment import Moment

GROUPS_PER_PART: Final = 100
"""The number of groups whose offsets are checked in one turn of the event loop."""


class OffsetExpiration:
    """Finds offsets and groups that have expired."""

    def __init__(self, groups: GroupRegistry, offsets: OffsetStore, config: GroupConfig) -> None:
        self._groups = groups
        self._offsets = offsets
        self._retention_ms = config.offsets_retention_ms

    def expire(self, now: Moment) -> Iterator[Writes]:
        """Yield tombstones for all expired offsets, and for groups without offsets and members.

        One part is for `GROUPS_PER_PART` groups. The caller must write a part before any other command and
        before it requests the next part: a later commit may renew an offset.
        """
        records: list[CoordinatorRecord] = []
        groups: list[OffsetGroup] = [
            *self._groups,
            *self._groups.consumers,
            *self._groups.streams,
        ]
        for count, group in enumerate(groups, 1):
            if self._groups.find(group.group_id) is group:
                self._expire_group(group, now, records)
            if count % GROUPS_PER_PART == 0:
                yield Writes(tuple(records), may_split=True)
                records = []
        yield Writes(tuple(records), may_split=True)

    def _expire_group(self, group: OffsetGroup, now: Moment, records: list[CoordinatorRecord]) -> None:
        all_expired = self._expire_offsets(group, now, records)
        if isinstance(group, Group):
            is_unused = group.state is GroupState.EMPTY and not group.pending_members
        else:
            is_unused = group.is_empty
        if all_expired and is_unused and not self._offsets.keys_in_transactions(group.group_id):
            records += tombstones_of(group)

    def _expire_offsets(self, group: OffsetGroup, now: Moment, records: list[CoordinatorRecord]) -> bool:
        """Add the tombstones of a group to `records`. Return whether all of its offsets have expired."""
        all_expired = True
        for topic, partitions in self._offsets.latest.offsets_of_group(group.group_id).items():
            for partition, committed in partitions.items():
                key = OffsetKey(group.group_id, topic, partition)
                if self._is_expired(group, key, committed, now):
                    records.append(offset_tombstone(*key))
                else:
                    all_expired = False
        return all_expired

    def _is_expired(
        self, group: OffsetGroup, key: OffsetKey, committed: CommittedOffset, now: Moment
    ) -> bool:
        since_wall_ms = _unneeded_since(group, key.topic, committed)
        if since_wall_ms is None or self._offsets.has_open_transaction(key):
            return False
        if committed.expire_wall_ms != -1:
            return now.wall_ms >= committed.expire_wall_ms
        return now.wall_ms - since_wall_ms >= self._retention_ms


def _unneeded_since(group: OffsetGroup, topic: str, committed: CommittedOffset) -> int | None:
    """Return the time since when an offset is not needed; None while the group needs it."""
    if is_subscribed_to(group, topic):
        return None
    if not isinstance(group, Group) or group.protocol_type is None:
        return committed.commit_wall_ms
    if group.state is GroupState.EMPTY:
        return committed.commit_wall_ms if group.state_wall_ms is None else group.state_wall_ms
    if group.state is GroupState.STABLE and group.is_consumer_group:
        return committed.commit_wall_ms
    return None
