"""Leaders of mounted partitions follow the segments that appear in the bucket of another cluster (shell).

    list what is new at the source, and everything every COMPLETE_LISTING_MS
                    -> register new segments in the remote log metadata, as references
                    -> the log restarts at their end, as after a recovery: readers see the records
                    -> drop segments that the source has deleted; no object is deleted

The metadata of the segments is in `__remote_log_metadata` of this cluster. So replicas, restarts and
elections need nothing else: followers start after the remote segments (KIP-405), and a new leader first lists
the source and recovers its log (`leader_recovery`). Every step can be repeated, also by two leaders at once.

I/O: reads remote storage in threads. A failure is logged and repeated after the next interval.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from heapq import nlargest, nsmallest
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.replication.remote_tier import AuxiliaryReader
from tidelog.protocol.ids import BrokerId, TopicPartition
from tidelog.remote.mounts.follow import continuing, deleted_at_start, log_start_after
from tidelog.remote.mounts.listing import Found, MountListing
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.ports.metadata_manager import RemoteLogMetadataManager
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    TopicIdPartition,
)
from tidelog.remote.reading.auxiliary import AuxiliaryState
from tidelog.remote.tasks.context import RunInThread
from tidelog.remote.tasks.recovered_log import log_position, recovered_log
from tidelog.storage.leader_epoch import LeaderEpochCache
from tidelog.storage.log.truncation import RemoteState

logger = logging.getLogger(__name__)

_STARTED, _FINISHED, _DELETING, _DELETED = RemoteLogSegmentState
_REGISTERED_AT_ONCE: Final = 100
LISTED_AGAIN: Final = 100
"""The newest known segments, which each listing contains: an unclean election may add segments below them."""
COMPLETE_LISTING_MS: Final = 600_000
"""The time between complete listings, which also find segments below these, and other deleted segments."""
CHECKED_AT_START_MAX: Final = 100
"""The oldest segments whose manifests are requested in one interval, if the source has deleted so many."""
SEGMENTS_PER_SLICE: Final = 500
"""The number of segments that are listed without a pause of the event loop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MountPorts:
    """The ports of mounts to their node.

    `store` is the store of the node with its mounts; `run_in_thread` runs calls that wait for it.
    `interval_ms` returns the time between two listings of a source.
    """

    metadata: RemoteLogMetadataManager
    reader: AuxiliaryReader
    replicas: ReplicaManager
    store: ObjectStore
    run_in_thread: RunInThread
    interval_ms: Callable[[], int]
    clock: Clock
    broker_id: BrokerId


class MountFollower:
    """One task for each mounted partition of which this node is the leader."""

    def __init__(self, ports: MountPorts) -> None:
        self._ports = ports
        self._tasks: dict[TopicPartition, asyncio.Task[None]] = {}
        self._applied: dict[TopicPartition, object] = {}
        """The version of the metadata, and the leader epoch, that each log has."""
        self._listed_ms: dict[TopicPartition, int] = {}
        """The time of the last complete listing of each partition."""
        self._is_closed = False

    def start(self, partitions: Iterable[Partition]) -> None:
        """Start the tasks of those of `partitions` that are mounted, and that this node leads."""
        if self._is_closed:
            return
        for partition in partitions:
            name = partition.topic_partition
            if name not in self._tasks and _is_followed(partition):
                task = asyncio.get_running_loop().create_task(self._run(partition), name=f"mount-{name}")
                self._tasks[name] = task
                task.add_done_callback(partial(self._on_ended, partition))

    async def close(self) -> None:
        """Cancel all tasks; no further one starts."""
        self._is_closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def register_new(self, partition: Partition) -> Found | None:
        """Register the segments that have appeared at the source; return None for a topic without a mount.

        The remote metadata of the partition must be ready. Errors: RemoteStorageError, RemoteMetadataError.
        """
        source = partition.log.config.tidelog_source
        if source is None or source.mount is None:
            return None
        name = _name_of(partition)
        listing = MountListing(self._ports.store, source, name)
        segments = await self._segments(name)
        finished = [segment for segment in segments if segment.state is _FINISHED]
        registered = {
            segment.remote_log_segment_id.id for segment in segments if segment.state is not _STARTED
        }
        now_ms = self._ports.clock.monotonic_ms()
        listed_ms = self._listed_ms.get(partition.topic_partition)
        is_complete = listed_ms is None or now_ms - listed_ms >= COMPLETE_LISTING_MS
        found: Found = await self._ports.run_in_thread(_find, listing, registered, finished, is_complete)
        accepted, waiting = continuing(finished, found.segments)
        begun = {
            segment.remote_log_segment_id.id: segment for segment in segments if segment.state is _STARTED
        }
        for first in range(0, len(accepted), _REGISTERED_AT_ONCE):
            some = accepted[first : first + _REGISTERED_AT_ONCE]
            await asyncio.gather(*(self._register(segment, begun) for segment in some))
        if waiting and not found.has_more:
            logger.warning(
                "Mounted partition %s waits: offsets before %d are not in the bucket of %s yet",
                partition.topic_partition,
                waiting[0].start_offset,
                source.mount,
            )
        if is_complete:
            missing = await self._ports.run_in_thread(_really_missing, listing, finished, found.missing)
            listed = {segment.remote_log_segment_id.id for segment in found.segments}
            unlisted = [segment for identifier, segment in begun.items() if identifier not in listed]
            await self._end_registrations(listing, unlisted)
            self._listed_ms[partition.topic_partition] = now_ms
        else:
            missing = await self._ports.run_in_thread(_missing_at_start, listing, finished)
        return found._replace(missing=missing)

    async def follow_once(self, partition: Partition) -> bool:
        """Register new segments, apply them to the log and delete those that the source has deleted.

        Return whether the source has more new segments; False, too, if the remote metadata is not ready or
        this node has lost the leadership. Errors: RemoteStorageError, RemoteMetadataError, KafkaError,
        PoolFull.
        """
        name, metadata = _name_of(partition), self._ports.metadata
        if not metadata.is_ready(name):
            return False
        epoch = partition.leader_epoch
        found = await self.register_new(partition)
        assert found is not None
        inputs = (metadata.segments_version(name), epoch)
        if self._applied.get(partition.topic_partition) == inputs and not found.missing:
            return found.has_more  # listing 100,000 segments takes a second or more
        finished = []
        for segment in await self._segments(name):
            if segment.state is _FINISHED:
                finished.append(segment)
            elif segment.state is _DELETING:
                await self._update(segment, _DELETED)
        if not finished:
            return found.has_more
        auxiliary = await self._ports.reader.fetch_auxiliary(max(finished, key=log_position))
        change = await self._ports.run_in_thread(_change, finished, auxiliary, found.missing)
        if not _is_followed(partition) or partition.leader_epoch != epoch:
            return False
        self._apply(partition, change.state)
        for segment in change.deleted:
            await self._update(segment, _DELETING)
            await self._update(segment, _DELETED)
        self._applied[partition.topic_partition] = (metadata.segments_version(name), epoch)
        return found.has_more

    async def _segments(self, name: TopicIdPartition) -> list[RemoteLogSegmentMetadata]:
        """Return all segments of a partition; yield to the event loop after every SEGMENTS_PER_SLICE."""
        segments = []
        for segment in self._ports.metadata.list_remote_log_segments(name):
            segments.append(segment)
            if len(segments) % SEGMENTS_PER_SLICE == 0:
                await asyncio.sleep(0)
        return segments

    def _apply(self, partition: Partition, state: RemoteState) -> None:
        """Let the log end and start where the segments do; the leader's own epoch has no records."""
        log = partition.log
        epochs = [each for each in log.leader_epochs.entries if each.start_offset < log.log_end_offset]
        start = max(state.log_start_offset, log.log_start_offset)
        state = state._replace(log_start_offset=min(start, state.local_log_start_offset))
        is_other_lineage = bool(epochs) and epochs[-1] != state.leader_epochs[-1]
        if state.local_log_start_offset != log.log_end_offset or is_other_lineage:
            partition.continue_after_remote(state, self._ports.clock.wall_ms())
        elif state.log_start_offset > log.log_start_offset:
            log.advance_log_start_offset_from_remote(state.log_start_offset)

    async def _register(self, segment: RemoteLogSegmentMetadata, begun: Iterable[UUID]) -> None:
        if segment.remote_log_segment_id.id not in begun:
            await self._ports.metadata.add_remote_log_segment_metadata(replace(segment, state=_STARTED))
        await self._update(segment, _FINISHED)

    async def _end_registrations(
        self, listing: MountListing, begun: Sequence[RemoteLogSegmentMetadata]
    ) -> None:
        """End the registrations of an earlier leader whose segments the source has deleted since then."""
        ids = frozenset(segment.remote_log_segment_id.id for segment in begun)
        missing = await self._ports.run_in_thread(_really_missing, listing, begun, ids) if ids else ids
        for segment in begun:
            if segment.remote_log_segment_id.id in missing:
                await self._update(segment, _DELETING)
                await self._update(segment, _DELETED)

    async def _update(self, segment: RemoteLogSegmentMetadata, state: RemoteLogSegmentState) -> None:
        await self._ports.metadata.update_remote_log_segment_metadata(
            RemoteLogSegmentMetadataUpdate(
                remote_log_segment_id=segment.remote_log_segment_id,
                event_timestamp_ms=segment.event_timestamp_ms
                if state is _FINISHED
                else self._ports.clock.wall_ms(),
                state=state,
                broker_id=self._ports.broker_id,
                custom_metadata=segment.custom_metadata,
            )
        )

    async def _run(self, partition: Partition) -> None:
        has_failed = False
        while self._ports.replicas.partitions.get(partition.topic_partition) is partition and _is_followed(
            partition
        ):
            has_more = False
            try:
                has_more = await self.follow_once(partition)
                if has_failed:
                    logger.info("Mounted partition %s follows its source again", partition.topic_partition)
                has_failed = False
            except Exception as error:
                if not has_failed:
                    logger.warning(
                        "Mounted partition %s cannot follow its source: %s; retrying every %d ms",
                        partition.topic_partition,
                        error,
                        self._ports.interval_ms(),
                    )
                has_failed = True
            if not has_more:
                await asyncio.sleep(self._ports.interval_ms() / 1000)

    def _on_ended(self, partition: Partition, task: asyncio.Task[None]) -> None:
        del self._tasks[partition.topic_partition]
        self._applied.pop(partition.topic_partition, None)
        self._listed_ms.pop(partition.topic_partition, None)
        self.start([partition])


def _is_followed(partition: Partition) -> bool:
    return partition.leader is not None and partition.log.config.is_mounted


def _name_of(partition: Partition) -> TopicIdPartition:
    return TopicIdPartition(partition.topic_id, *partition.topic_partition)


def _find(
    listing: MountListing,
    registered: Collection[UUID],
    finished: Sequence[RemoteLogSegmentMetadata],
    is_complete: bool,
) -> Found:
    """Return what a complete listing shows, or one that begins with the newest segments that are known."""
    if is_complete or not finished:
        return listing.find(registered)
    newest = nlargest(LISTED_AGAIN, (segment.start_offset for segment in finished))
    return listing.find(registered, newest[-1])


def _really_missing(
    listing: MountListing, segments: Iterable[RemoteLogSegmentMetadata], unlisted: frozenset[UUID]
) -> frozenset[UUID]:
    """Return those of the `unlisted` segments whose manifest does not exist."""
    return frozenset(
        segment.remote_log_segment_id.id
        for segment in segments
        if segment.remote_log_segment_id.id in unlisted and not listing.exists(segment)
    )


def _missing_at_start(listing: MountListing, segments: Iterable[RemoteLogSegmentMetadata]) -> frozenset[UUID]:
    """Return the oldest segments before one whose manifest exists: the source deletes them first.

    At most CHECKED_AT_START_MAX are returned. They are dropped, and the next interval continues after them.
    """
    missing = set[UUID]()
    oldest = nsmallest(
        CHECKED_AT_START_MAX, segments, key=lambda segment: (segment.start_offset, segment.end_offset)
    )
    for segment in oldest:
        if listing.exists(segment):
            break
        missing.add(segment.remote_log_segment_id.id)
    return frozenset(missing)


class _Change(NamedTuple):
    """What remote storage has of the log, and the segments that are dropped."""

    state: RemoteState
    deleted: list[RemoteLogSegmentMetadata]


def _change(
    segments: Sequence[RemoteLogSegmentMetadata], auxiliary: AuxiliaryState, missing: frozenset[UUID]
) -> _Change:
    newest = max(segments, key=log_position)
    log = recovered_log(segments, newest, auxiliary.leader_epochs)
    deleted = deleted_at_start(segments, log.leader_epochs, missing)
    start = log_start_after(log, deleted, log.leader_epochs)
    epochs = LeaderEpochCache.of(log.leader_epochs)
    epochs.truncate_from_start(start)
    return _Change(RemoteState(start, log.end_offset, epochs.entries, auxiliary.producer_snapshot), deleted)
