"""Which snapshots are worth writing, and what may be committed then. Pure.

A snapshot is written when an eighth of its segments changed since the last one, so that a partition with
many is not written over and over for a few; when there is none yet; and for all that changed at the end.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.snapshot_files import PlannedSnapshot
from tidelog.remote.metadata.store import PartitionMetadataStore
from tidelog.remote.metadata.subscription import Subscription
from tidelog.remote.ports.segment_metadata import RemotePartitionDeleteMetadata, TopicIdPartition

_CHANGED_SHARE = 8


class SnapshotPlan(NamedTuple):
    """What `SnapshotFiles.write` is given."""

    followed: list[TopicIdPartition]
    snapshots: list[PlannedSnapshot]
    committed: dict[int, Offset]
    deletions: list[RemotePartitionDeleteMetadata]


class SnapshotPlanner:
    """Knows of each partition up to which offset it is on disk, how much changed since, and where first."""

    def __init__(self, store: PartitionMetadataStore, subscription: Subscription) -> None:
        self._store = store
        self._subscription = subscription
        self._kept: dict[TopicIdPartition, Offset] = {}
        self._changes: dict[TopicIdPartition, tuple[int, Offset]] = {}

    def loaded(self, partition: TopicIdPartition, next_offset: Offset) -> None:
        """A snapshot of `partition` was found that holds everything before `next_offset`."""
        self._kept[partition] = next_offset

    def changed(self, partition: TopicIdPartition, offset: Offset) -> None:
        """The record at `offset` changed what is known of `partition`."""
        count, first = self._changes.get(partition, (0, offset))
        self._changes[partition] = (count + 1, first)

    def forget(self, partition: TopicIdPartition) -> None:
        """`partition` is here no more."""
        self._kept.pop(partition, None)
        self._changes.pop(partition, None)

    def plan(self, *, is_last: bool) -> SnapshotPlan:
        """What to write now; `planned`, then `written` or `failed` must be told."""
        followed: list[TopicIdPartition] = []
        snapshots: list[PlannedSnapshot] = []
        committed = dict(self._subscription.tail)
        for partition, follower in self._subscription.followers():
            followed.append(partition)
            number = follower.metadata_partition
            limit = self._kept.get(partition)
            if follower.is_joined:
                count, limit = self._changes.get(partition, (0, None))
                cache = self._store.cache(partition)
                is_due = count and (is_last or count * _CHANGED_SHARE >= len(cache))
                if is_due or partition not in self._kept:
                    limit = None
                    next_offset = self._subscription.known_up_to(partition, number)
                    snapshots.append(
                        PlannedSnapshot(
                            partition, number, next_offset, cache.frozen(), cache.highest_offsets()
                        )
                    )
            if limit is not None and number in committed:
                committed[number] = min(committed[number], limit)
        return SnapshotPlan(followed, snapshots, committed, self.deletions())

    def deletions(self) -> list[RemotePartitionDeleteMetadata]:
        """The deletions of partitions that are under way."""
        return self._store.deletions()

    def written(self, plan: SnapshotPlan) -> None:
        """`plan` is on disk."""
        for planned in plan.snapshots:
            if self._store.has(planned.partition):
                self._kept[planned.partition] = planned.next_offset

    def planned(self, plan: SnapshotPlan) -> None:
        """`plan` is about to be written: changes are counted anew from here on."""
        for planned in plan.snapshots:
            self._changes.pop(planned.partition, None)

    def failed(self, plan: SnapshotPlan) -> None:
        """`plan` could not be written: its partitions are as changed as can be."""
        for planned in plan.snapshots:
            if planned.partition in self._kept:
                self._changes[planned.partition] = (1 << 31, self._kept[planned.partition])
