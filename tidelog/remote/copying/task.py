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
from tidelog.remote.ports.storage_manager import StoreUnavailable
from tidelog.remote.tasks.context import RemoteLogContext
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.remote.tasks.local_segments import LocalSegment, find_segment, local_segments
from tidelog.remote.tasks.remote_state import update_copied_offset
from tidelog.remote.tasks.replica import Role

QUOTA_CHECK_MS: Final = 1000
"""The maximum time that a copy waits for the quota before it checks again whether it is still needed."""

_IN_USE: Final = (RemoteLogSegmentState.COPY_SEGMENT_STARTED, RemoteLogSegmentState.COPY_SEGMENT_FINISHED)

_log = logging.getLogger(__name__)


class CopyTask:
    """Copies the segments of one partition that may be copied each time it runs.

    Invariant: at most one copy of the partition is in progress. A copy whose end may not be published
    (`_unfinished`) is finished before another one begins, so that a lost response does not cause a second
    copy. A copy that the store did not accept because it is not available (`_waiting`) is repeated with the
    same id, so that an outage leaves one record.
    """

    def __init__(self, context: RemoteLogContext, role: Role) -> None:
        self._context = context
        self._role = role
        self._waiting: SegmentCopy | None = None
        self._unfinished: SegmentCopy | None = None
        self._is_disabled = False

    async def run(self) -> None:
        """Copy all segments that may be copied now.

        Errors: RemoteMetadataError; SegmentNotCopyable and errors of the storage manager, which are counted.
        """
        role, log = self._role, self._role.replica.log
        if self._is_disabled or not role.is_current or not log.remote_log_enabled:
            return
        try:
            await self._finish_last_copy()
            if log.config.remote_log_copy_disable:
                self._clear_lag()
                update_copied_offset(self._context, role.replica)
                await self._discard_waiting()
                return
            plan = self._plan()
            if not plan:
                await self._discard_waiting()
            for planned in plan:
                if not self._context.outages.copies.allows_attempt() or not await self._copy(planned):
                    return
        except LeadershipLost as error:
            _log.info("Stopped a copy because this node is no longer leader: %s", error)
        except CustomMetadataTooLarge as error:
            _log.error("Disabled copying of %s to remote storage: %s", role.replica.topic_id_partition, error)
            self._count_error()
            self._is_disabled = True
        except RemoteMetadataNotReady:
            raise
        except Exception:
            if role.is_current:
                self._count_error()
            raise

    def release(self) -> None:
        """Release the unfinished copy after the end of the role; the next leader decides about it.

        If another node has deleted the copy, this node keeps it for deletion: no other node knows of its
        objects.
        """
        if self._waiting is not None:
            self._context.in_progress.discard(self._waiting.id.id)
            self._waiting = None
        copy = self._unfinished
        if copy is None:
            return
        with suppress(RemoteMetadataError):
            if self._is_abandoned(copy):
                self._context.undeleted_copies[copy.id.id] = copy.metadata
        self._clear_unfinished(copy)

    def _plan(self) -> list[LocalSegment]:
        context, log = self._context, self._role.replica.log
        copied_offset = update_copied_offset(context, self._role.replica)
        segments = local_segments(log)
        self._update_lag(segments)
        return segments_to_copy(
            segments,
            copied_offset=copied_offset,
            log_start_offset=log.log_start_offset,
            last_stable_offset=log.last_stable_offset,
            lag=CopyLag.of(log.config),
            now_ms=context.clock.wall_ms(),
        )

    async def _copy(self, planned: LocalSegment) -> bool:
        """Copy one segment; return False if the rest of the plan must not be executed."""
        context, role = self._context, self._role
        log = role.replica.log
        await self._wait_for_quota(planned.size_bytes)
        # Deletions, a truncation or a changed setting may have made the plan obsolete.
        segment = find_segment(log, planned)
        if not role.is_current or log.config.remote_log_copy_disable or segment is None:
            return False
        if planned.end_offset <= log.log_start_offset:
            return True  # deleted meanwhile, for example by DeleteRecords
        copy = self._waiting
        is_begun = copy is not None and self._is_needed(copy, planned)
        if copy is None or not is_begun:
            await self._discard_waiting()
            copy = SegmentCopy(context, role, segment, planned)
        context.in_progress.add(copy.id.id)
        try:
            if not is_begun:
                await copy.begin()
                if self._is_copied(planned):
                    await discard_copy(context, copy.metadata)
                    return False
            await self._store(copy)
            self._unfinished = copy
            await self._publish_or_discard(copy)
        except OSError as error:
            if find_segment(log, planned) is not None:
                raise
            _log.info("Segment %s was removed from the log during its copy: %s", copy.id, error)
            return False
        finally:
            if self._unfinished is None and self._waiting is None:
                context.in_progress.discard(copy.id.id)
        return True

    async def _store(self, copy: SegmentCopy) -> None:
        """Write the objects; if the store is not available, the copy waits for the next run."""
        self._waiting = None
        try:
            await copy.store()
        except StoreUnavailable:
            self._waiting = copy
            raise

    def _is_needed(self, copy: SegmentCopy, planned: LocalSegment) -> bool:
        """Return whether the waiting `copy` is one of `planned`, and no node has deleted it."""
        is_started = self._state_of(copy) is RemoteLogSegmentState.COPY_SEGMENT_STARTED
        return copy.is_copy_of(planned) and is_started

    def _is_copied(self, planned: LocalSegment) -> bool:
        """Return whether the tier has the segment, after the start of its copy was read back.

        Then all earlier records were read, too: those of a former leader may have arrived after the plan.
        """
        return update_copied_offset(self._context, self._role.replica) >= planned.end_offset - 1

    async def _discard_waiting(self) -> None:
        copy, self._waiting = self._waiting, None
        if copy is not None:
            await discard_copy(self._context, copy.metadata)
            self._context.in_progress.discard(copy.id.id)

    async def _publish_or_discard(self, copy: SegmentCopy) -> None:
        try:
            await self._publish(copy)
        except RemoteMetadataError:
            if self._unfinished is not None and self._is_abandoned(copy):
                await discard_copy(self._context, copy.metadata)
                self._clear_unfinished(copy)
            raise

    async def _publish(self, copy: SegmentCopy) -> None:
        await copy.publish()
        self._clear_unfinished(copy)
        if self._role.is_current:
            log = self._role.replica.log
            log.remote_border.raise_highest_offset(copy.metadata.end_offset)
            self._context.faults(FaultPoint.AFTER_COPY_NOTED)
            self._update_lag(local_segments(log))

    async def _finish_last_copy(self) -> None:
        """Publish the end of the last copy again if the outcome is unknown."""
        copy = self._unfinished
        if copy is None:
            return
        if self._is_abandoned(copy):
            await discard_copy(self._context, copy.metadata)
            self._clear_unfinished(copy)
        else:
            await self._publish(copy)

    def _is_abandoned(self, copy: SegmentCopy) -> bool:
        """Return whether another node deleted `copy` as abandoned, perhaps before its objects existed.

        Errors: RemoteMetadataError.
        """
        return self._state_of(copy) not in _IN_USE

    def _state_of(self, copy: SegmentCopy) -> RemoteLogSegmentState | None:
        return self._context.metadata.segment_state(copy.id)

    def _clear_unfinished(self, copy: SegmentCopy) -> None:
        self._unfinished = None
        self._context.in_progress.discard(copy.id.id)

    async def _wait_for_quota(self, size_bytes: int) -> None:
        context = self._context
        quota, clock, figures = context.copy_quota, context.clock, context.figures
        while self._role.is_current and (wait_ms := quota.throttle_ms(clock.monotonic_ms())) > 0:
            wait_ms = min(wait_ms, QUOTA_CHECK_MS)
            figures.copy_throttle_time_ms += wait_ms
            figures.copy_throttle_count += 1
            await context.pause(wait_ms)
        quota.record(size_bytes, clock.monotonic_ms())

    def _update_lag(self, segments: list[LocalSegment]) -> None:
        replica = self._role.replica
        backlog = copy_backlog(segments, replica.log.highest_offset_in_remote_storage)
        figures = self._context.figures.partition(replica.topic_id_partition)
        figures.copy_lag_segments, figures.copy_lag_bytes = backlog

    def _clear_lag(self) -> None:
        figures = self._context.figures.partition(self._role.replica.topic_id_partition)
        figures.copy_lag_segments = figures.copy_lag_bytes = 0

    def _count_error(self) -> None:
        self._context.figures.topic(self._role.replica.topic_id_partition.topic).copy_errors += 1
