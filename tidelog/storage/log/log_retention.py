"""Deleting the segments of one log that are too old, too many or below the log start.

The new log start becomes durable before any file is renamed, so that a crash in between never leaves a log
whose start is not in any segment (KAFKA-15352). A log directory therefore calls `expire_segments` for its
logs, writes one checkpoint with their new starts, and then calls `remove_expired`.

Source: UnifiedLog.deleteOldSegments of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.storage.log.failures import LogFailures
from tidelog.storage.log.leader_epoch_file_cache import LeaderEpochFileCache
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.log_start import LogStart
from tidelog.storage.log.remote_border import RemoteBorder
from tidelog.storage.log.retention import LogBounds, RetentionLimits, expired_segments
from tidelog.storage.log.segment_replacement import SegmentReplacement
from tidelog.storage.log.settings import LogSettings
from tidelog.storage.log.tiered_retention import local_retention
from tidelog.storage.segment.segment import LogSegment


class LogRetention:
    """Moves the log start after expired segments, removes them, and later unlinks their files."""

    __slots__ = (
        "_border",
        "_epochs",
        "_failures",
        "_log_segments",
        "_log_start",
        "_offsets",
        "_replacement",
        "_settings",
    )

    def __init__(
        self,
        settings: LogSettings,
        failures: LogFailures,
        offsets: LogOffsets,
        replacement: SegmentReplacement,
        border: RemoteBorder,
        epochs: LeaderEpochFileCache,
        log_start: LogStart,
    ) -> None:
        self._settings = settings
        self._failures = failures
        self._offsets = offsets
        self._replacement = replacement
        self._log_segments = replacement.segments
        self._border = border
        self._epochs = epochs
        self._log_start = log_start

    def apply(self, now_ms: int) -> int:
        """Delete the segments that are too old, too many or below the log start; return their number."""
        expired = self.expire_segments(now_ms)
        if expired:
            with self._failures.storage_errors("deletion of segments"):
                self._offsets.checkpoint_log_start()
            self.remove_expired(expired, now_ms)
        return len(expired)

    def expire_segments(self, now_ms: int) -> list[LogSegment]:
        """Move the log start after the expired segments and return them: the first half of retention.

        The caller makes the log start durable and then calls `remove_expired`.
        """
        self._failures.refuse_after_failure()
        segments, config, offsets = self._log_segments.segments, self._settings.config, self._offsets
        if len(segments) == 1 and not segments.active.size_bytes:
            return []  # nodes have thousands of logs, and many are empty
        bounds = LogBounds(offsets.log_start_offset, offsets.high_watermark, offsets.log_end_offset)
        if not self._border.remote_log_enabled:
            expired = expired_segments(list(segments), RetentionLimits.of(config), bounds, now_ms)
        else:
            expired, rolls = local_retention(list(segments), config, bounds, self._border.bounds, now_ms)
            if rolls:
                self._roll(now_ms)
        if expired:
            if len(expired) == len(segments):
                self._roll(now_ms)
            following = segments.higher(expired[-1].base_offset)
            assert following is not None
            self._start_at_segment(following)
        return expired

    def remove_expired(self, expired: Sequence[LogSegment], now_ms: int) -> int:
        """Remove expired segments, whose files are unlinked later: the second half of retention.

        Segments that the log no longer has are skipped. Return the number of the others.
        """
        self._replacement.settle()
        segments = self._log_segments.segments
        in_use = [each for each in expired if segments.floor(each.base_offset) is each]
        with self._failures.storage_errors("deletion of segments"):
            if self._border.remote_log_enabled:
                # The log keeps the epochs of these records, and recovery could no longer find them.
                self._epochs.write_if_outdated()
            self._log_segments.remove_all(in_use, now_ms)
        return len(in_use)

    def delete_expired_files(self, now_ms: int) -> int:
        """Unlink the files of segments that were deleted file.delete.delay.ms ago; return their number."""
        segments = self._log_segments
        with self._failures.storage_errors("unlinking of deleted files"):
            return segments.deleted_files.remove_due(segments.fs, now_ms)

    def take_expired_files(self, now_ms: int) -> list[str]:
        """Return the files that `delete_expired_files` would unlink; the caller unlinks them."""
        return self._log_segments.deleted_files.take_due(now_ms)

    def _roll(self, now_ms: int) -> None:
        log_end_offset = self._offsets.log_end_offset
        with self._failures.storage_errors("roll"):
            self._log_segments.roll(log_end_offset, log_end_offset, now_ms)

    def _start_at_segment(self, segment: LogSegment) -> None:
        """Raise the start before the local segments that precede `segment` are removed."""
        if self._border.remote_log_enabled and not self._settings.config.remote_log_copy_disable:
            self._offsets.advance_local_log_start(segment.base_offset)
        elif segment.base_offset > self._offsets.local_log_start_offset:
            self._log_start.advance(segment.base_offset)
