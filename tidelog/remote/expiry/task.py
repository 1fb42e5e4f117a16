"""The task of a leader that deletes expired remote segments."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from tidelog.remote.expiry.plan import (
    Deletion,
    ExpirationPlan,
    ExpirationView,
    IdleBounds,
    Reason,
    Retention,
    plan_expiration,
    plan_from_excerpt,
)
from tidelog.remote.expiry.segment_deletion import delete_segment, is_unchanged
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import StoreUnavailable
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.remote.tasks.local_segments import local_only_bytes, local_segments
from tidelog.remote.tasks.remote_lineage import EpochLineage
from tidelog.remote.tasks.remote_state import advance_log_start, update_copied_offset
from tidelog.remote.tasks.replica import Role

FAILURES_IN_A_ROW_MAX: Final = 3
"""The number of consecutive failed deletions after which the rest waits for the next run."""
SEGMENTS_PER_SLICE: Final = 500
"""The number of segments that are listed without a pause of the event loop, and planned without a thread."""

_log = logging.getLogger(__name__)


class ExpirationTask:
    """Moves the log start and deletes remote segments of one partition each time it runs."""

    def __init__(self, context: RemoteLogContext, role: Role) -> None:
        self._context = context
        self._role = role
        self._idle: tuple[object, IdleBounds] | None = None

    async def run(self) -> None:
        """Delete all expired segments.

        Errors: RemoteMetadataError, KafkaError and errors of the storage manager; the next run deletes the
        rest.
        """
        role = self._role
        if not role.is_current or not role.replica.log.remote_log_enabled:
            return
        update_copied_offset(self._context, role.replica)
        inputs = self._inputs()
        if self._is_idle(inputs):
            return
        plan = self._plan_from_excerpt() or await self._plan_from_all_segments()
        if not role.is_current or plan is None:
            return
        if plan.log_start_offset is not None:
            # Before any deletion, so that no reader requests a deleted segment (KAFKA-15352).
            self._context.faults(FaultPoint.BEFORE_LOG_START_MOVED)
            role.replica.log.advance_log_start_offset_from_remote(plan.log_start_offset)
            self._context.faults(FaultPoint.AFTER_LOG_START_MOVED)
        await self._delete(self._without_referenced(plan.deletions))
        log = role.replica.log
        is_idle = plan.idle is not None and log.local_log_start_offset <= log.high_watermark
        self._idle = (inputs, plan.idle) if plan.idle is not None and is_idle else None

    def _inputs(self) -> object:
        """Return all inputs of the plan except the time and appended records."""
        replica, log = self._role.replica, self._role.replica.log
        return (
            self._context.metadata.segments_version(replica.topic_id_partition),
            log.leader_epochs.entries,
            log.log_start_offset,
            log.local_log_start_offset,
            Retention.of(log.config),
        )

    def _is_idle(self, inputs: object) -> bool:
        """Return whether the last run found nothing to delete, and there is still nothing."""
        if self._idle is None or self._idle[0] != inputs:
            return False
        log = self._role.replica.log
        local_bytes = local_only_bytes(local_segments(log), log.highest_offset_in_remote_storage)
        now_ms = self._context.clock.wall_ms()
        return self._idle[1].contains(now_ms, local_bytes, log.high_watermark, log.log_end_offset)

    def _plan_from_excerpt(self) -> ExpirationPlan | None:
        """Return the plan if the oldest segments are sufficient for it: the others are not deleted then.

        Listing all of 100,000 segments takes a second or more.
        """
        context, log = self._context, self._role.replica.log
        began_ms = context.clock.monotonic_ms()
        lineage, log_end_offset = EpochLineage(log.leader_epochs.entries), log.log_end_offset
        excerpt = context.metadata.segment_excerpt(
            self._role.replica.topic_id_partition, lambda epoch: lineage.range_of(epoch, log_end_offset)
        )
        if excerpt is None or not excerpt.reaches(log.log_start_offset):
            return None
        advance_log_start(self._role.replica, excerpt.segments)
        plan = plan_from_excerpt(self._view(excerpt.segments), excerpt)
        if plan is not None:
            self._set_figures(began_ms, excerpt.segment_count, excerpt.size_bytes)
        return plan

    async def _plan_from_all_segments(self) -> ExpirationPlan | None:
        """Return the plan; None if the role has ended meanwhile."""
        context = self._context
        segments = await self._list_segments()
        if not self._role.is_current:
            return None
        advance_log_start(self._role.replica, segments)
        began_ms = context.clock.monotonic_ms()
        view = self._view(segments)
        if len(segments) <= SEGMENTS_PER_SLICE:
            plan = plan_expiration(view)
        else:
            plan = await context.run_deletion(plan_expiration, view)
        if not self._role.is_current:
            return None
        size_bytes = sum(segment.segment_size_bytes for segment in segments)
        self._set_figures(began_ms, len(segments), size_bytes)
        return plan

    async def _list_segments(self) -> list[RemoteLogSegmentMetadata]:
        """Return all segments of the partition; yield to the event loop after every SEGMENTS_PER_SLICE."""
        segments = []
        for segment in self._context.metadata.list_remote_log_segments(self._role.replica.topic_id_partition):
            segments.append(segment)
            if len(segments) % SEGMENTS_PER_SLICE == 0:
                await asyncio.sleep(0)
        return segments

    def _view(self, segments: Sequence[RemoteLogSegmentMetadata]) -> ExpirationView:
        context, log = self._context, self._role.replica.log
        return ExpirationView(
            segments=segments,
            epochs=log.leader_epochs.entries,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            log_end_offset=log.log_end_offset,
            copied_offset=update_copied_offset(context, self._role.replica),
            local_only_bytes=local_only_bytes(local_segments(log), log.highest_offset_in_remote_storage),
            in_progress=frozenset(context.in_progress),
            retention=Retention.of(log.config),
            now_ms=context.clock.wall_ms(),
        )

    def _set_figures(self, began_ms: int, segment_count: int, size_bytes: int) -> None:
        figures = self._context.figures.partition(self._role.replica.topic_id_partition)
        figures.log_size_computation_time_ms = self._context.clock.monotonic_ms() - began_ms
        figures.metadata_count = segment_count
        figures.log_size_bytes = size_bytes

    def _without_referenced(self, deletions: Sequence[Deletion]) -> Sequence[Deletion]:
        """Return `deletions` without the segments to which other topics may refer.

        These are deleted later. They are below the log start, so that readers of this topic do not see them.
        """
        return [each for each in deletions if not self._is_referenced(each.segment)]

    def _is_referenced(self, segment: RemoteLogSegmentMetadata) -> bool:
        until_ms = self._context.referenced_until_ms(segment.topic_id_partition.topic_id)
        return until_ms is not None and segment.max_timestamp_ms <= until_ms

    async def _delete(self, deletions: Sequence[Deletion]) -> None:
        failures_in_a_row, last_error = 0, None
        # Unfinished deletions come last: segments that can never be deleted do not delay the others.
        deletions = sorted(deletions, key=lambda deletion: deletion.reason is Reason.UNFINISHED_DELETION)
        remaining = len(deletions)
        remaining_bytes = sum(deletion.segment.segment_size_bytes for deletion in deletions)
        self._update_lag(remaining, remaining_bytes)
        for deletion in deletions:
            if not self._role.is_current:
                return
            if failures_in_a_row == FAILURES_IN_A_ROW_MAX:
                break
            if not self._context.outages.deletions.allows_attempt():
                break
            try:
                await self._delete_one(deletion)
            except Exception as error:
                failures_in_a_row, last_error = failures_in_a_row + 1, error
                level = logging.DEBUG if isinstance(error, StoreUnavailable) else logging.WARNING
                segment_id = deletion.segment.remote_log_segment_id
                _log.log(level, "Cannot delete remote segment %s: %s", segment_id, error)
            else:
                failures_in_a_row = 0
                remaining -= 1
                remaining_bytes -= deletion.segment.segment_size_bytes
                self._update_lag(remaining, remaining_bytes)
        if last_error is not None:
            raise last_error

    async def _delete_one(self, deletion: Deletion) -> None:
        segment = deletion.segment
        if segment.remote_log_segment_id.id in self._context.in_progress:
            return
        if deletion.reason is Reason.DANGLING_COPY and not is_unchanged(self._context, segment):
            return  # it was finished while other segments were deleted
        if self._is_referenced(segment):
            return  # by a topic that was created while other segments were deleted
        _log.info("Deleting remote segment %s: %s", segment.remote_log_segment_id, deletion.reason.value)
        await delete_segment(self._context, segment)

    def _update_lag(self, segments: int, size_bytes: int) -> None:
        if self._role.is_current:
            figures = self._context.figures.partition(self._role.replica.topic_id_partition)
            figures.delete_lag_segments, figures.delete_lag_bytes = segments, size_bytes
