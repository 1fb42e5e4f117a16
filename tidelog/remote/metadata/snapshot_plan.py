"""Which snapshots are written, and which offsets may be committed then. Pure.

A snapshot is written if an eighth of its segments have changed since the last one, so that a few changes do
not cause large writes. It is also written if there is none yet, and for every changed partition when the node
stops.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.snapshot_files import PlannedSnapshot
from tidelog.remote.metadata.store import PartitionMetadataStore
from tidelog.remote.metadata.subscription import Subscription
from tidelog.remote.ports.segment_metadata import RemotePartitionDeleteMetadata, TopicIdPartition

_CHANGED_SHARE = 8
_ALL_CHANGED = 1 << 31


class SnapshotPlan(NamedTuple):
    """The arguments of `SnapshotFiles.write`."""

    followed: list[TopicIdPartition]
    snapshots: list[PlannedSnapshot]
    committed: dict[int, Offset]
    deletions: list[RemotePartitionDeleteMetadata]


class SnapshotPlanner:
    """Tracks the offset on disk of each partition, the number of changes since, and the first of them."""

    def __init__(self, store: PartitionMetadataStore, subscription: Subscription) -> None:
        self._store = store
        self._subscription = subscription
        self._stored_offsets: dict[TopicIdPartition, Offset] = {}
        self._changes: dict[TopicIdPartition, tuple[int, Offset]] = {}

    def on_loaded(self, partition: TopicIdPartition, next_offset: Offset) -> None:
        """Record that a snapshot of `partition` was loaded, with all records before `next_offset`."""
        self._stored_offsets[partition] = next_offset

    def on_change(self, partition: TopicIdPartition, offset: Offset) -> None:
        """Record that the record at `offset` changed `partition`."""
        count, first = self._changes.get(partition, (0, offset))
        self._changes[partition] = (count + 1, first)

    def forget(self, partition: TopicIdPartition) -> None:
        """Remove `partition`, which has left this node."""
        self._stored_offsets.pop(partition, None)
        self._changes.pop(partition, None)

    def plan(self, *, is_last: bool) -> SnapshotPlan:
        """Return what to write now; call `on_planned`, then `on_written` or `on_failed`."""
        followed: list[TopicIdPartition] = []
        snapshots: list[PlannedSnapshot] = []
        committed = dict(self._subscription.tail)
        for partition, follower in self._subscription.followers():
            followed.append(partition)
            number = follower.metadata_partition
            limit = self._stored_offsets.get(partition)
            if follower.is_joined:
                count, limit = self._changes.get(partition, (0, None))
                cache = self._store.cache(partition)
                is_needed = count and (is_last or count * _CHANGED_SHARE >= len(cache))
                if is_needed or partition not in self._stored_offsets:
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
        """Return the deletions of partitions in progress."""
        return self._store.deletions()

    def on_written(self, plan: SnapshotPlan) -> None:
        """Record that `plan` is on disk."""
        for planned in plan.snapshots:
            if self._store.has(planned.partition):
                self._stored_offsets[planned.partition] = planned.next_offset

    def on_planned(self, plan: SnapshotPlan) -> None:
        """Count changes from 0 again, because `plan` is about to be written."""
        for planned in plan.snapshots:
            self._changes.pop(planned.partition, None)

    def on_failed(self, plan: SnapshotPlan) -> None:
        """Mark the partitions of `plan`, which could not be written, as completely changed."""
        for planned in plan.snapshots:
            stored_offset = self._stored_offsets.get(planned.partition)
            if stored_offset is not None:
                self._changes[planned.partition] = (_ALL_CHANGED, stored_offset)
