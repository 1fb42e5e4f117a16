"""Replacing segments by a cleaned one, so that a crash between two steps does no harm.

    .cleaned -> .swap       durable: from here on the cleaned segment is valid, and a start completes the rest
    old -> .deleted         durable: no old file may exist together with new ones under a segment's name
    .swap -> final names    durable before the next replacement of the log is committed

Readers that have a position in an old segment's file keep that file open, so nothing is closed here.

`tidelog.storage.recovery.interrupted_swaps` completes an interrupted replacement when a log is opened.

Source: LocalLog.replaceSegments of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.log_files import CLEANED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX
from tidelog.storage.log.failures import LogFailures
from tidelog.storage.log.log_segments import LogSegments
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_files import remove_segment_files


@dataclass(slots=True)
class _Swap:
    cleaned: LogSegment
    replaced: Sequence[LogSegment]
    is_committed: bool = False


class SegmentReplacement:
    """Replaces segments of one log by a cleaned one, at most one replacement at a time.

        none --begin--> NAMED --commit--> COMMITTED --finish--> none
        NAMED --settle--> none: the cleaned segment is discarded
        COMMITTED --settle--> none: the replacement is finished

    The caller calls `sync` in any thread after `begin` and after `commit`. Meanwhile the log is in use. An
    operation that removes or renames files of segments calls `settle` first, which syncs in its own thread.
    """

    __slots__ = ("_failures", "_swap", "segments")

    def __init__(self, segments: LogSegments, failures: LogFailures) -> None:
        self.segments = segments
        self._failures = failures
        self._swap: _Swap | None = None

    def begin(self, cleaned: LogSegment, replaced: Sequence[LogSegment]) -> None:
        """Rename the files of `cleaned`, which is to replace adjacent segments.

        Errors: KafkaError KAFKA_STORAGE_ERROR; nothing has changed then.
        """
        assert self._swap is None, f"{self.segments.directory}: another replacement is in progress"
        segments, base_offset = self.segments, cleaned.base_offset
        assert replaced[0].base_offset == base_offset, (
            f"{segments.directory}: {base_offset} replaces {replaced[0]}"
        )
        try:
            renamed = cleaned.files.rename(segments.fs, CLEANED_SUFFIX, SWAP_SUFFIX)
        except OSError as error:
            with suppress(OSError):
                self.discard(cleaned)
            raise self._failures.storage_error("compaction", error) from error
        if not renamed or not renamed[0].endswith(LOG_SUFFIX + SWAP_SUFFIX):
            self.discard(cleaned)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{cleaned.file.path} does not exist")
        self._swap = _Swap(cleaned, replaced)

    def sync(self) -> None:
        """Make the names of the files durable, in any thread. Errors: OSError, StorageFailure."""
        self.segments.sync_directory()

    def commit(self, now_ms: int) -> bool:
        """Use the cleaned segment from now on; return False if it was discarded meanwhile.

        The files of the replaced segments are unlinked after file.delete.delay.ms.
        Errors: StorageFailure; the contents of the disk are unknown then.
        """
        swap, segments = self._swap, self.segments
        if swap is None:
            return False
        swap.is_committed = True
        removals = [
            # The new segment starts with the same producers' state as the first of the old ones.
            partial(segments.remove, one, now_ms, keeps_snapshot=one.base_offset == swap.cleaned.base_offset)
            for one in reversed(swap.replaced)
        ]
        self._failures.perform("compaction", [*removals, partial(segments.segments.add, swap.cleaned)])
        return True

    def finish(self) -> None:
        """Give the files of the cleaned segment their final names; those of the old ones are durable.

        Errors: StorageFailure; the contents of the disk are unknown then.
        """
        if self._swap is not None:
            self._failures.perform("compaction", self._final_steps(self._swap))

    def settle(self) -> None:
        """End a replacement that is in progress. I/O: an fsync. Errors: StorageFailure."""
        swap = self._swap
        if swap is None or self._failures.failure is not None:
            return
        if swap.is_committed:
            self._failures.perform("compaction", [self.sync, *self._final_steps(swap)])
        else:
            self._swap = None
            self.discard(swap.cleaned)

    def forget(self) -> None:
        """Leave the files of a replacement in progress as they are: the directory is no longer used."""
        self._swap = None

    def _final_steps(self, swap: _Swap) -> list[Callable[[], object]]:
        return [partial(swap.cleaned.files.rename, self.segments.fs, SWAP_SUFFIX, ""), self.forget]

    def discard(self, cleaned: LogSegment) -> None:
        """Remove the files of a cleaned segment that is not used."""
        segments = self.segments
        cleaned.files.close()
        try:
            for suffix in (CLEANED_SUFFIX, SWAP_SUFFIX):
                remove_segment_files(segments.fs, segments.directory, cleaned.base_offset, suffix)
            segments.sync_directory()
        except FileNotFoundError:
            pass  # The partition was deleted meanwhile, which renames its directory.
        except StorageFailure as error:
            self._failures.storage_error("compaction", error)
            raise
