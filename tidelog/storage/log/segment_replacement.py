"""Replacing segments by a cleaned one, so that a crash between two steps does no harm.

    .cleaned -> .swap       durable: from here on the cleaned segment is valid, and a start completes the rest
    old -> .deleted         durable: no old file may exist together with new ones under a segment's name
    .swap -> final names    durable before the next cleaning of the log begins

Readers that have a position in an old segment's file keep that file open, so nothing is closed here.

`tidelog.storage.recovery.interrupted_swaps` completes an interrupted replacement when a log is opened.

Source: LocalLog.replaceSegments of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.log_files import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX
from tidelog.storage.log.failures import LogFailures
from tidelog.storage.log.log_segments import LogSegments
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_files import remove_segment_files


class SegmentReplacement:
    """Replaces segments of one log by a cleaned one."""

    __slots__ = ("_failures", "_segments")

    def __init__(self, segments: LogSegments, failures: LogFailures) -> None:
        self._segments = segments
        self._failures = failures

    def replace(self, cleaned: LogSegment, replaced: Sequence[LogSegment], now_ms: int) -> None:
        """Use `cleaned` in place of `replaced`, whose files are unlinked after file.delete.delay.ms.

        Errors: KafkaError KAFKA_STORAGE_ERROR before anything has changed; StorageFailure if the contents of
        the disk are unknown.
        """
        segments, base_offset = self._segments, cleaned.base_offset
        assert replaced[0].base_offset == base_offset, (
            f"{segments.directory}: {base_offset} replaces {replaced[0]}"
        )
        try:
            renamed = cleaned.rename(segments.fs, CLEANED_SUFFIX, SWAP_SUFFIX)
        except OSError as error:
            with suppress(OSError):
                self.discard(cleaned)
            raise self._failures.storage_error("compaction", error) from error
        if not renamed or not renamed[0].endswith(LOG_SUFFIX + SWAP_SUFFIX):
            self.discard(cleaned)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{cleaned.file.path} does not exist")
        removals = [
            # The new segment starts with the same producers' state as the first of the old ones.
            partial(segments.remove, segment, now_ms, keeps_snapshot=segment.base_offset == base_offset)
            for segment in reversed(replaced)
        ]
        sync = segments.sync_directory
        self._failures.perform("compaction", [sync, *removals, sync, partial(segments.add_cleaned, cleaned)])

    def discard(self, cleaned: LogSegment) -> None:
        """Remove the files of a cleaned segment that is not used."""
        segments = self._segments
        cleaned.close()
        try:
            for suffix in (CLEANED_SUFFIX, SWAP_SUFFIX):
                remove_segment_files(segments.fs, segments.directory, cleaned.base_offset, suffix)
            segments.sync_directory()
        except FileNotFoundError:
            pass  # The partition was deleted meanwhile, which renames its directory.
        except StorageFailure as error:
            self._failures.storage_error("compaction", error)
            raise
