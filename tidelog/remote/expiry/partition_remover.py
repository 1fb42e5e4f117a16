"""Deletion of all remote data of a partition whose topic was deleted or is no longer tiered.

    DELETE_PARTITION_MARKED    a node found that it must be deleted
    DELETE_PARTITION_STARTED   a node is deleting it; each segment is deleted as by retention
    DELETE_PARTITION_FINISHED  nothing is left; the metadata of the partition is dropped

Work is by topic id: a re-created topic of the same name has another id, and nothing in common. Every step may
be repeated, also by several nodes. The former leader begins at once; a former follower, or a node that finds
an unfinished deletion in the metadata, waits a while and then deletes the rest.

If remote storage is enabled again for the partition, its new leader does not copy until the deletion has
finished, see `is_pending`. Later copies do not belong to this deletion: a node that receives its end deletes
nothing more. A deletion is begun at most once, and only by a node with `may_begin`. A deletion that has not
begun by then never begins: no other node knows of it, and followers rely on the segments again.

Source: KIP-405 (RemotePartitionRemover), KIP-950; KAFKA-15313, KAFKA-15414, KAFKA-16511.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tidelog.base.backoff import ExponentialBackoff
from tidelog.remote.expiry.segment_deletion import delete_segment
from tidelog.remote.ports.metadata_manager import (
    RemoteMetadataError,
    RemoteMetadataNotReady,
)
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import StoreUnavailable
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.remote.tasks.slots import TaskSlots

TAKEOVER_INTERVALS: Final = 2
"""The task intervals after which a deletion that another node began may be resumed."""

FAILURES_IN_A_ROW_MAX: Final = 3
"""The number of consecutive failed deletions of segments after which the rest waits for the next attempt."""

_MARKED, _STARTED, _FINISHED = RemotePartitionDeleteState
_DELETING: Final = RemoteLogSegmentState.DELETE_SEGMENT_STARTED

_log = logging.getLogger(__name__)


async def remove_partition(
    context: RemoteLogContext, partition: TopicIdPartition, *, may_begin: bool = True
) -> None:
    """Delete all data of `partition`; without `may_begin`, only if its deletion has begun already.

    Errors: RemoteMetadataError and errors of the storage manager; the caller retries.
    """
    metadata, faults = context.metadata, context.faults
    if not metadata.is_ready(partition):
        raise RemoteMetadataNotReady(f"the remote metadata of {partition} has not been read yet")
    state = pending_state(context, partition)
    is_empty = next(metadata.list_remote_log_segments(partition), None) is None
    if state is None and (is_empty or not may_begin):
        return  # nothing was ever copied, or another node has deleted it
    if state is None:
        if not context.is_confirmed():
            raise RemoteMetadataError(
                f"cannot begin the deletion of {partition}: the controller has not responded recently, so "
                "the topic may be tiered again"
            )
        faults(FaultPoint.BEFORE_PARTITION_MARKED)
        await _put(context, partition, _MARKED)
        faults(FaultPoint.AFTER_PARTITION_MARKED)
    if state is not _STARTED:
        await _put(context, partition, _STARTED)
        faults(FaultPoint.AFTER_PARTITION_STARTED)
    while segments := [
        segment
        for segment in metadata.list_remote_log_segments(partition)
        if segment.remote_log_segment_id.id not in context.in_progress
    ]:
        if not await _delete_all(context, partition, segments):
            return  # another node has ended it: the present segments were copied afterwards
    if next(metadata.list_remote_log_segments(partition), None) is not None:
        raise RemoteMetadataError(f"cannot finish the deletion of {partition}: a copy is still in progress")
    faults(FaultPoint.AFTER_PARTITION_EMPTIED)
    await _put(context, partition, _FINISHED)
    faults(FaultPoint.AFTER_PARTITION_FINISHED)


async def _delete_all(
    context: RemoteLogContext, partition: TopicIdPartition, segments: Sequence[RemoteLogSegmentMetadata]
) -> bool:
    """Delete `segments`; return False if the deletion of `partition` has ended meanwhile.

    Errors: the last error, after all were tried or FAILURES_IN_A_ROW_MAX have failed consecutively.
    """
    failures_in_a_row, last_error = 0, None
    # Unfinished deletions come last: segments that can never be deleted do not delay the others.
    for segment in sorted(segments, key=lambda segment: segment.state is _DELETING):
        if _has_ended(context, partition):
            return False
        try:
            await delete_segment(context, segment)
        except Exception as error:
            failures_in_a_row, last_error = failures_in_a_row + 1, error
            if failures_in_a_row == FAILURES_IN_A_ROW_MAX:
                break
        else:
            failures_in_a_row = 0
    if last_error is not None:
        raise last_error
    return True


def pending_state(
    context: RemoteLogContext, partition: TopicIdPartition
) -> RemotePartitionDeleteState | None:
    """Return the state of the deletion of `partition`; None if there is none or it has ended."""
    for deletion in context.metadata.partition_deletions():
        if deletion.topic_id_partition == partition:
            return deletion.state
    return None


def _has_ended(context: RemoteLogContext, partition: TopicIdPartition) -> bool:
    """Return whether the deletion is no longer in progress."""
    return pending_state(context, partition) is None


async def _put(
    context: RemoteLogContext, partition: TopicIdPartition, state: RemotePartitionDeleteState
) -> None:
    await context.metadata.put_remote_partition_delete_metadata(
        RemotePartitionDeleteMetadata(partition, state, context.clock.wall_ms(), context.broker_id)
    )


class RemotePartitionRemover:
    """Runs the deletions of partitions on this node, each in its own task, a few at a time.

    `is_assigned` returns whether this node has a replica of a partition: then its metadata is kept after the
    deletion.
    """

    def __init__(
        self,
        context: RemoteLogContext,
        slots: TaskSlots,
        backoff: ExponentialBackoff,
        is_assigned: Callable[[TopicIdPartition], bool],
    ) -> None:
        self._context = context
        self._slots = slots
        self._backoff = backoff
        self._is_assigned = is_assigned
        self._jobs: dict[TopicIdPartition, asyncio.Task[None]] = {}
        self._begun: set[TopicIdPartition] = set()
        self._cancelled: set[asyncio.Task[None]] = set()

    @property
    def partitions(self) -> frozenset[TopicIdPartition]:
        """The partitions that this node is deleting."""
        return frozenset(self._jobs)

    def is_pending(self, partition: TopicIdPartition) -> bool:
        """Return whether a deletion of `partition` has begun on any node and has not ended."""
        return partition in self._jobs or pending_state(self._context, partition) is not None

    def remove(
        self,
        partition: TopicIdPartition,
        *,
        after: Callable[[], Awaitable[None]] | None = None,
        delay_ms: int = 0,
        may_begin: bool = False,
    ) -> None:
        """Delete all data of `partition`, `delay_ms` after `after` has returned; one job for each partition.

        Without `may_begin`, only finish a deletion that has begun already.
        """
        if partition not in self._jobs:
            job = asyncio.get_running_loop().create_task(
                self._remove(partition, after, delay_ms, may_begin),
                name=f"remote-partition-remover-{partition}",
            )
            self._jobs[partition] = job
            job.add_done_callback(lambda ended: self._on_job_ended(partition, ended))

    def cancel_unless_begun(self, partition: TopicIdPartition) -> None:
        """Cancel the deletion of `partition`, which is tiered again with this leader, unless it has begun."""
        has_begun = partition in self._begun or pending_state(self._context, partition) is not None
        if not has_begun:
            self._cancel(partition)

    def stop_working_on(self, partition: TopicIdPartition) -> None:
        """Stop working on the deletion of `partition`: its new leader finishes it."""
        self._cancel(partition)

    def resume_deletions(self) -> None:
        """Resume deletions that this node began, and those of other nodes that make no progress."""
        context = self._context
        takeover_ms = TAKEOVER_INTERVALS * context.settings.remote_log_manager_task_interval_ms
        now_ms = context.clock.wall_ms()
        for deletion in context.metadata.partition_deletions():
            partition = deletion.topic_id_partition
            is_own = deletion.broker_id == context.broker_id
            if self._is_assigned(partition):
                continue  # its leader resumes it
            if is_own or now_ms - deletion.event_timestamp_ms >= takeover_ms:
                self.remove(partition)

    async def close(self) -> None:
        """Cancel the jobs; the next start finds the deletions again."""
        for partition in list(self._jobs):
            self._cancel(partition)
        if self._cancelled:
            await asyncio.wait(self._cancelled)

    def _cancel(self, partition: TopicIdPartition) -> None:
        job = self._jobs.get(partition)
        if job is not None:
            self._cancelled.add(job)
            job.cancel()
            self._forget(partition)  # at once: another deletion of the partition may be requested

    def _on_job_ended(self, partition: TopicIdPartition, job: asyncio.Task[None]) -> None:
        self._cancelled.discard(job)
        if self._jobs.get(partition) is job:
            self._forget(partition)

    def _forget(self, partition: TopicIdPartition) -> None:
        del self._jobs[partition]
        self._begun.discard(partition)

    async def _remove(
        self,
        partition: TopicIdPartition,
        after: Callable[[], Awaitable[None]] | None,
        delay_ms: int,
        may_begin: bool,
    ) -> None:
        context = self._context
        if after is not None:
            await after()
        if delay_ms:
            await context.pause(delay_ms)
        attempt = 0
        while True:
            try:
                if not context.metadata.is_ready(partition):
                    context.metadata.on_partition_leadership_changes((), (partition,))
                async with self._slots:
                    if context.metadata.is_ready(partition):
                        self._begun.add(partition)
                    # Another node may end a deletion that has begun; it must not begin again.
                    may_begin = may_begin and pending_state(context, partition) is None
                    await remove_partition(context, partition, may_begin=may_begin)
                break
            except Exception as error:
                is_quiet = attempt > 0 or isinstance(error, (RemoteMetadataNotReady, StoreUnavailable))
                level = logging.DEBUG if is_quiet else logging.WARNING
                _log.log(level, "Cannot delete %s from remote storage yet; retrying: %s", partition, error)
            await context.pause(self._backoff.delay_ms(attempt, context.randomness))
            attempt += 1
        if not self._is_assigned(partition):
            context.metadata.on_stop_partitions((partition,))
