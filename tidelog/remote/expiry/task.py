"""The task of a leader that deletes remote segments which nobody is to read any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from tidelog.remote.expiry.plan import (
    Deletion,
    ExpirationPlan,
    ExpirationView,
    QuietWithin,
    Reason,
    Retention,
    plan_expiration,
)
from tidelog.remote.expiry.segment_deletion import delete_segment, is_still
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.remote.tasks.local_segments import local_only_bytes, local_segments
from tidelog.remote.tasks.remote_state import note_copied_offset, raise_log_start
from tidelog.remote.tasks.replica import Role

FAILURES_IN_A_ROW_MAX: Final = 3
"""Deletions that fail one after the other before the rest waits for the next run."""
SEGMENTS_A_TURN: Final = 500
"""Segments that are listed before the loop may do something else, and decided on without a thread."""

_log = logging.getLogger(__name__)


class ExpirationTask:
    """Moves the log start and deletes remote segments of one partition each time it runs."""

    def __init__(self, context: RemoteLogContext, role: Role) -> None:
        self._context = context
        self._role = role
        self._quiet: tuple[object, QuietWithin] | None = None

    async def run(self) -> None:
        """Delete all that is to go now.

        Errors: RemoteMetadataError, KafkaError and the storage manager's; what is left goes next time.
        """
        role = self._role
        if not role.is_current or not role.replica.log.remote_log_enabled:
            return
        note_copied_offset(self._context, role.replica)
        given = self._given()
        if self._is_quiet(given):
            return  # to list 100,000 segments costs a second or more
        segments = await self._listed()
        if not role.is_current:
            return
        raise_log_start(role.replica, segments)
        plan = await self._plan(segments)
        if not role.is_current:
            return
        if plan.log_start_offset is not None:
            # Before anything goes, so that nobody is sent to what is not there any more (KAFKA-15352).
            self._context.faults(FaultPoint.BEFORE_LOG_START_MOVED)
            role.replica.log.advance_log_start_offset_from_remote(plan.log_start_offset)
            self._context.faults(FaultPoint.AFTER_LOG_START_MOVED)
        await self._delete(plan.deletions)
        log = role.replica.log
        is_settled = plan.quiet is not None and log.local_log_start_offset <= log.high_watermark
        self._quiet = (given, plan.quiet) if plan.quiet is not None and is_settled else None

    def _given(self) -> object:
        """All that decides what goes, but for time and what is appended."""
        replica, log = self._role.replica, self._role.replica.log
        return (
            self._context.metadata.segments_version(replica.topic_id_partition),
            log.leader_epochs.entries,
            log.log_start_offset,
            log.local_log_start_offset,
            Retention.of(log.config),
        )

    def _is_quiet(self, given: object) -> bool:
        """Whether the last run found nothing to delete, and nothing has happened that would change that."""
        if self._quiet is None or self._quiet[0] != given:
            return False
        log = self._role.replica.log
        local_bytes = local_only_bytes(local_segments(log), log.highest_offset_in_remote_storage)
        now_ms = self._context.clock.wall_ms()
        return self._quiet[1].holds(now_ms, local_bytes, log.high_watermark, log.log_end_offset)

    async def _listed(self) -> list[RemoteLogSegmentMetadata]:
        """All segments of the partition; there may be very many, so the loop gets its turns meanwhile."""
        segments = []
        for segment in self._context.metadata.list_remote_log_segments(self._role.replica.topic_id_partition):
            segments.append(segment)
            if len(segments) % SEGMENTS_A_TURN == 0:
                await asyncio.sleep(0)
        return segments

    async def _plan(self, segments: list[RemoteLogSegmentMetadata]) -> ExpirationPlan:
        context, log = self._context, self._role.replica.log
        figures = context.figures.partition(self._role.replica.topic_id_partition)
        began_ms = context.clock.monotonic_ms()
        view = ExpirationView(
            segments=segments,
            epochs=log.leader_epochs.entries,
            log_start_offset=log.log_start_offset,
            high_watermark=log.high_watermark,
            log_end_offset=log.log_end_offset,
            copied_offset=note_copied_offset(context, self._role.replica),
            local_only_bytes=local_only_bytes(local_segments(log), log.highest_offset_in_remote_storage),
            in_progress=frozenset(context.in_progress),
            retention=Retention.of(log.config),
            now_ms=context.clock.wall_ms(),
        )
        if len(segments) <= SEGMENTS_A_TURN:
            plan = plan_expiration(view)
        else:
            plan = await context.run_deletion(plan_expiration, view)
        if not self._role.is_current:
            return plan
        figures.log_size_computation_time_ms = context.clock.monotonic_ms() - began_ms
        figures.metadata_count = len(segments)
        figures.log_size_bytes = sum(segment.segment_size_bytes for segment in segments)
        return plan

    async def _delete(self, deletions: Sequence[Deletion]) -> None:
        failures_in_a_row, last_error = 0, None
        # What was begun before comes last: segments which can never be deleted do not keep the others.
        deletions = sorted(deletions, key=lambda each: each.reason is Reason.UNFINISHED_DELETION)
        left, left_bytes = len(deletions), sum(each.segment.segment_size_bytes for each in deletions)
        self._note_lag(left, left_bytes)
        for deletion in deletions:
            if not self._role.is_current:
                return
            if failures_in_a_row == FAILURES_IN_A_ROW_MAX:
                break
            try:
                await self._delete_one(deletion)
            except Exception as error:
                failures_in_a_row, last_error = failures_in_a_row + 1, error
                _log.warning("%s was not deleted: %s", deletion.segment.remote_log_segment_id, error)
            else:
                failures_in_a_row = 0
                left, left_bytes = left - 1, left_bytes - deletion.segment.segment_size_bytes
                self._note_lag(left, left_bytes)
        if last_error is not None:
            raise last_error

    async def _delete_one(self, deletion: Deletion) -> None:
        segment = deletion.segment
        if segment.remote_log_segment_id.id in self._context.in_progress:
            return
        if deletion.reason is Reason.DANGLING_COPY and not is_still(self._context, segment):
            return  # it was finished while other segments were deleted
        _log.info("deleting %s: %s", segment.remote_log_segment_id, deletion.reason.value)
        await delete_segment(self._context, segment)

    def _note_lag(self, segments: int, size_bytes: int) -> None:
        if self._role.is_current:
            figures = self._context.figures.partition(self._role.replica.topic_id_partition)
            figures.delete_lag_segments, figures.delete_lag_bytes = segments, size_bytes
