"""The task of a leader that copies sealed segments to remote storage, one after the other."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from tidelog.remote.copying.plan import CopyLag, copy_backlog, segments_to_copy
from tidelog.remote.copying.segment_copy import CustomMetadataTooLarge, LeadershipLost, SegmentCopy
from tidelog.remote.expiry.segment_deletion import discard_copy
from tidelog.remote.ports.metadata_manager import RemoteMetadataError, RemoteMetadataNotReady
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentState
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.remote.tasks.local_segments import LocalSegment, find_segment, local_segments
from tidelog.remote.tasks.remote_state import note_copied_offset
from tidelog.remote.tasks.replica import Role

QUOTA_LOOK_MS: Final = 1000
"""How long a copy that waits for the quota waits at most before it looks whether it is still wanted."""

_IN_USE: Final = (RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)

_log = logging.getLogger(__name__)


class CopyTask:
    """Copies what may be copied of one partition each time it runs.

    Invariant: at most one copy of the partition is under way; one whose end is not published (`_unfinished`)
    is brought to its end before another begins, so that a segment is not copied twice for a lost answer.
    """

    def __init__(self, context: RemoteLogContext, role: Role) -> None:
        self._context = context
        self._role = role
        self._unfinished: SegmentCopy | None = None
        self._is_stopped_for_good = False

    @property
    def is_publishing(self) -> bool:
        """Whether there is a copy whose end is being published, or may have been."""
        return self._unfinished is not None

    async def run(self) -> None:
        """Copy all segments that may go now.

        Errors: RemoteMetadataError; SegmentNotCopyable and what the storage manager raises, counted.
        """
        role, log = self._role, self._role.replica.log
        if self._is_stopped_for_good or not role.is_current or not log.remote_log_enabled:
            return
        try:
            await self._finish_last_copy()
            if log.config.remote_log_copy_disable:
                self._forget_lag()
                note_copied_offset(self._context, role.replica)
                return
            for planned in self._plan():
                if not await self._copy(planned):
                    return
        except LeadershipLost as lost:
            _log.info("a copy ends because the partition is led elsewhere: %s", lost)
        except CustomMetadataTooLarge as error:
            _log.error("%s: nothing more is copied: %s", role.replica.topic_id_partition, error)
            self._count_error()
            self._is_stopped_for_good = True
        except RemoteMetadataNotReady:
            raise
        except Exception:
            if role.is_current:
                self._count_error()
            raise

    def release(self) -> None:
        """The role is over and the task does not run any more: whoever leads next decides on what is left.

        But for the objects of a copy that somebody has deleted already, of which nobody else knows.
        """
        copy = self._unfinished
        if copy is None:
            return
        with suppress(RemoteMetadataError):
            if self._is_given_up(copy):
                self._context.leftovers[copy.id.id] = copy.metadata
        self._done_with(copy)

    def _plan(self) -> list[LocalSegment]:
        context, log = self._context, self._role.replica.log
        copied_offset = note_copied_offset(context, self._role.replica)
        segments = local_segments(log)
        self._note_lag(segments)
        return segments_to_copy(
            segments,
            copied_offset=copied_offset,
            log_start_offset=log.log_start_offset,
            last_stable_offset=log.last_stable_offset,
            lag=CopyLag.of(log.config),
            now_ms=context.clock.wall_ms(),
        )

    async def _copy(self, planned: LocalSegment) -> bool:
        """Copy one segment; False when the rest of the plan is not to be carried out."""
        context, role = self._context, self._role
        log = role.replica.log
        await self._wait_for_quota(planned.size_bytes)
        # What waited may have been overtaken: by deletions, a truncation, or a setting.
        segment = find_segment(log, planned)
        if not role.is_current or log.config.remote_log_copy_disable or segment is None:
            return False
        if planned.end_offset <= log.log_start_offset:
            return True  # deleted meanwhile, as DeleteRecords does
        copy = SegmentCopy(context, role, segment, planned)
        context.in_progress.add(copy.id.id)
        try:
            await copy.store()
            self._unfinished = copy
            await self._publish_first(copy)
        except OSError as error:
            if find_segment(log, planned) is not None:
                raise
            _log.info("%s left the log while it was copied: %s", copy.id, error)
            return False
        finally:
            if self._unfinished is None:
                context.in_progress.discard(copy.id.id)
        return True

    async def _publish_first(self, copy: SegmentCopy) -> None:
        try:
            await self._publish(copy)
        except RemoteMetadataError:
            if self._unfinished is not None and self._is_given_up(copy):
                await discard_copy(self._context, copy.metadata)
                self._done_with(copy)
            raise

    async def _publish(self, copy: SegmentCopy) -> None:
        await copy.publish()
        self._done_with(copy)
        if self._role.is_current:
            log = self._role.replica.log
            log.note_highest_offset_in_remote_storage(copy.metadata.end_offset)
            self._context.faults(FaultPoint.AFTER_COPY_NOTED)
            self._note_lag(local_segments(log))

    async def _finish_last_copy(self) -> None:
        """Publish the end of a copy again if it is not known whether it was published."""
        copy = self._unfinished
        if copy is None:
            return
        if self._is_given_up(copy):
            await discard_copy(self._context, copy.metadata)
            self._done_with(copy)
        else:
            await self._publish(copy)

    def _is_given_up(self, copy: SegmentCopy) -> bool:
        """Whether somebody took the copy for abandoned and deleted it, perhaps before its objects were there.

        Errors: RemoteMetadataError.
        """
        return self._state_of(copy) not in _IN_USE

    def _state_of(self, copy: SegmentCopy) -> RemoteLogSegmentState | None:
        listed = self._context.metadata.list_remote_log_segments(
            copy.id.topic_id_partition, copy.metadata.segment_leader_epochs[0].epoch
        )
        return next((each.state for each in listed if each.remote_log_segment_id == copy.id), None)

    def _done_with(self, copy: SegmentCopy) -> None:
        self._unfinished = None
        self._context.in_progress.discard(copy.id.id)

    async def _wait_for_quota(self, size_bytes: int) -> None:
        context = self._context
        quota, clock, figures = context.copy_quota, context.clock, context.figures
        while self._role.is_current and (wait_ms := quota.throttle_ms(clock.monotonic_ms())) > 0:
            wait_ms = min(wait_ms, QUOTA_LOOK_MS)
            figures.copy_throttle_time_ms += wait_ms
            figures.copy_throttle_count += 1
            await context.pause(wait_ms)
        quota.record(size_bytes, clock.monotonic_ms())

    def _note_lag(self, segments: list[LocalSegment]) -> None:
        replica = self._role.replica
        backlog = copy_backlog(segments, replica.log.highest_offset_in_remote_storage)
        figures = self._context.figures.partition(replica.topic_id_partition)
        figures.copy_lag_segments, figures.copy_lag_bytes = backlog

    def _forget_lag(self) -> None:
        figures = self._context.figures.partition(self._role.replica.topic_id_partition)
        figures.copy_lag_segments = figures.copy_lag_bytes = 0

    def _count_error(self) -> None:
        self._context.figures.topic(self._role.replica.topic_id_partition.topic).copy_errors += 1
