"""Deleting all remote data of a partition: its topic is gone, or is tiered no more.

    DELETE_PARTITION_MARKED    somebody found out that it has to go
    DELETE_PARTITION_STARTED   somebody is at it; each segment goes as it does for retention
    DELETE_PARTITION_FINISHED  nothing is left; what was known of the partition is forgotten

Work is by topic id: a topic of the same name that is made again has another id, and nothing in common.
Every step may be taken twice and by several nodes. The node that led the partition begins at once; one
that followed, or that finds another's deletion in the metadata, waits a while and then sees what is left.
A partition that comes back (remote storage was switched on again) keeps its new leader from copying until
the deletion is over, see `is_pending`. What is copied then is not this deletion's: a node that hears of the
end deletes nothing more, and only who was told to begins a deletion, once. One that has not begun by then
never does: nobody has heard of it, and followers count on the segments again.

Source: KIP-405 (RemotePartitionRemover), KIP-950; KAFKA-15313, KAFKA-15414, KAFKA-16511.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Final, Protocol, TypeGuard, runtime_checkable

from tidelog.clients.transport.backoff import ExponentialBackoff
from tidelog.remote.expiry.segment_deletion import delete_segment
from tidelog.remote.ports.metadata_manager import (
    RemoteLogMetadataManager,
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
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.remote.tasks.turns import Turns

TAKEOVER_INTERVALS: Final = 2
"""Task intervals after which a deletion that another node began may be taken over."""

FAILURES_IN_A_ROW_MAX: Final = 3
"""Segments whose deletions fail one after the other before the rest waits for the next attempt."""

_MARKED, _STARTED, _FINISHED = RemotePartitionDeleteState
_DELETING: Final = RemoteLogSegmentState.DELETE_SEGMENT_STARTED

_log = logging.getLogger(__name__)


@runtime_checkable
class KnowsPartitionDeletions(Protocol):
    """What a metadata manager offers beyond its port, so that deletions go on after a crash."""

    def partition_deletions(self) -> list[RemotePartitionDeleteMetadata]:
        """The deletions of partitions that have begun and not ended, the last record of each."""
        ...


@cache
def _tells_deletions(kind: type) -> bool:
    # Asked of each partition at each turn; to look at a protocol's members takes 20 us.
    return issubclass(kind, KnowsPartitionDeletions)


def _knows_deletions(metadata: RemoteLogMetadataManager) -> TypeGuard[KnowsPartitionDeletions]:
    return _tells_deletions(type(metadata))


async def remove_partition(
    context: RemoteLogContext, partition: TopicIdPartition, *, begins: bool = True
) -> None:
    """Delete everything of `partition`, or what is left of it; without `begins` only if that is under way.

    Errors: RemoteMetadataError and the storage manager's; to be called again then.
    """
    metadata, faults = context.metadata, context.faults
    if not metadata.is_ready(partition):
        raise RemoteMetadataNotReady(f"the remote metadata of {partition} is not read yet")
    state = pending_state(context, partition)
    is_empty = next(metadata.list_remote_log_segments(partition), None) is None
    if state is None and (is_empty or not begins):
        return  # nothing was ever copied, or somebody else has done it
    if state is None:
        if not context.is_confirmed():
            raise RemoteMetadataError("the controller was not heard of: the topic may be tiered again")
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
            return  # another node has ended it: what is there now came afterwards
    if next(metadata.list_remote_log_segments(partition), None) is not None:
        raise RemoteMetadataError(f"{partition}: a copy is still under way")
    faults(FaultPoint.AFTER_PARTITION_EMPTIED)
    await _put(context, partition, _FINISHED)
    faults(FaultPoint.AFTER_PARTITION_FINISHED)


async def _delete_all(
    context: RemoteLogContext, partition: TopicIdPartition, segments: Sequence[RemoteLogSegmentMetadata]
) -> bool:
    """Delete `segments`, as long as the deletion of `partition` has not ended.

    Errors: the last one, after all were tried or some have failed one after the other.
    """
    failures_in_a_row, last_error = 0, None
    # What was begun before comes last: segments which can never be deleted do not keep the others.
    for segment in sorted(segments, key=lambda each: each.state is _DELETING):
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
    """How far a deletion of `partition` is that has begun and not ended."""
    metadata = context.metadata
    if not _knows_deletions(metadata):
        return None
    for deletion in metadata.partition_deletions():
        if deletion.topic_id_partition == partition:
            return deletion.state
    return None


def _has_ended(context: RemoteLogContext, partition: TopicIdPartition) -> bool:
    """Whether the deletion that was under way is not any more."""
    is_known = _knows_deletions(context.metadata)
    return is_known and pending_state(context, partition) is None


async def _put(
    context: RemoteLogContext, partition: TopicIdPartition, state: RemotePartitionDeleteState
) -> None:
    await context.metadata.put_remote_partition_delete_metadata(
        RemotePartitionDeleteMetadata(partition, state, context.clock.wall_ms(), context.broker_id)
    )


class RemotePartitionRemover:
    """The deletions of partitions that this node works on; one task each, a few at once.

    `is_assigned` says whether a partition is led or followed here: then its metadata stays when it is done.
    """

    def __init__(
        self,
        context: RemoteLogContext,
        turns: Turns,
        backoff: ExponentialBackoff,
        is_assigned: Callable[[TopicIdPartition], bool],
    ) -> None:
        self._context = context
        self._turns = turns
        self._backoff = backoff
        self._is_assigned = is_assigned
        self._jobs: dict[TopicIdPartition, asyncio.Task[None]] = {}
        self._begun: set[TopicIdPartition] = set()
        self._cancelled: set[asyncio.Task[None]] = set()

    @property
    def partitions(self) -> frozenset[TopicIdPartition]:
        """Those that are being deleted here."""
        return frozenset(self._jobs)

    def is_pending(self, partition: TopicIdPartition) -> bool:
        """Whether a deletion of `partition` has begun, here or elsewhere, and has not ended."""
        return partition in self._jobs or pending_state(self._context, partition) is not None

    def remove(
        self,
        partition: TopicIdPartition,
        *,
        after: Callable[[], Awaitable[None]] | None = None,
        delay_ms: int = 0,
        begins: bool = False,
    ) -> None:
        """Delete all of `partition`, `delay_ms` after what `after` gives is over; one job each.

        Without `begins` a deletion that is under way is finished, and none is begun.
        """
        if partition not in self._jobs:
            job = asyncio.get_running_loop().create_task(
                self._remove(partition, after, delay_ms, begins), name=f"remote-partition-remover-{partition}"
            )
            self._jobs[partition] = job
            job.add_done_callback(lambda ended: self._ended(partition, ended))

    def call_off(self, partition: TopicIdPartition) -> None:
        """`partition`, which is led here, is tiered again: what has not begun does not begin."""
        has_begun = partition in self._begun or pending_state(self._context, partition) is not None
        if not has_begun:
            self._cancel(partition)

    def leave(self, partition: TopicIdPartition) -> None:
        """Another node leads `partition` now, and finishes its deletion if there is one that has begun."""
        self._cancel(partition)

    def take_over(self) -> None:
        """Go on with deletions that this node began, and those of others that have stood still."""
        context = self._context
        metadata = context.metadata
        if not _knows_deletions(metadata):
            return
        waited_ms = TAKEOVER_INTERVALS * context.settings.remote_log_manager_task_interval_ms
        now_ms = context.clock.wall_ms()
        for deletion in metadata.partition_deletions():
            partition = deletion.topic_id_partition
            is_mine = deletion.broker_id == context.broker_id
            if self._is_assigned(partition):
                continue  # its leader does it
            if is_mine or now_ms - deletion.event_timestamp_ms >= waited_ms:
                self.remove(partition)

    async def close(self) -> None:
        """Break off what is under way; it is found again."""
        for partition in list(self._jobs):
            self._cancel(partition)
        if self._cancelled:
            await asyncio.wait(self._cancelled)

    def _cancel(self, partition: TopicIdPartition) -> None:
        job = self._jobs.get(partition)
        if job is not None:
            self._cancelled.add(job)
            job.cancel()
            self._forget(partition)  # at once: the partition may have to be deleted after all

    def _ended(self, partition: TopicIdPartition, job: asyncio.Task[None]) -> None:
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
        begins: bool,
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
                async with self._turns:
                    if context.metadata.is_ready(partition):
                        self._begun.add(partition)
                    # Once it has begun it may end without us, and is not begun again.
                    begins = begins and pending_state(context, partition) is None
                    await remove_partition(context, partition, begins=begins)
                break
            except Exception as error:
                level = logging.DEBUG if isinstance(error, RemoteMetadataNotReady) else logging.WARNING
                _log.log(level, "%s is not deleted yet from remote storage: %s", partition, error)
            await context.pause(self._backoff.delay_ms(attempt, context.randomness))
            attempt += 1
        if not self._is_assigned(partition):
            context.metadata.on_stop_partitions((partition,))
