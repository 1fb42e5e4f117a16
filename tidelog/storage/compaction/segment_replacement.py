"""Putting a cleaned segment in the place of those it was made from, so that no crash on the way does harm.

    .cleaned -> .swap       durable: from here on the cleaned segment counts, and a start finishes the rest
    old -> .deleted         durable: no old file may stand beside the new ones under the name of a segment
    .swap -> final names    durable before the next cleaning of the log begins

Readers that hold a place in an old segment's file keep that file open, so nothing is closed here.

Source: LocalLog.replaceSegments of Apache Kafka 4.3; the load side is
`tidelog.storage.recovery.interrupted_swaps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.compaction.cleaning import remove_files
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.log_files import CLEANED_SUFFIX, DELETED_SUFFIX, LOG_SUFFIX, SWAP_SUFFIX
from tidelog.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from tidelog.storage.log.partition_log import PartitionLog


def replace_segments(
    log: PartitionLog, cleaned: LogSegment, replaced: Sequence[LogSegment], now_ms: int
) -> LogSegment:
    """The cleaned segment, in use; `replaced` go after file.delete.delay.ms.

    Errors: KafkaError KAFKA_STORAGE_ERROR, before anything has changed or, as a StorageFailure, when nobody
    knows what the disk holds.
    """
    base_offset = cleaned.base_offset
    assert replaced[0].base_offset == base_offset, f"{log.directory}: {base_offset} replaces {replaced[0]}"
    try:
        renamed = cleaned.rename(log.fs, CLEANED_SUFFIX, SWAP_SUFFIX)
    except OSError as error:
        with suppress(OSError):
            discard(log, cleaned)
        raise log.storage_error("compaction", error) from error
    if not renamed or not renamed[0].endswith(LOG_SUFFIX + SWAP_SUFFIX):
        discard(log, cleaned)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{cleaned.file.path} is gone")
    sync_directory = partial(log.fs.fsync_dir, log.directory)
    removals = [
        partial(_take_out, log, segment, now_ms, keeps_snapshot=segment.base_offset == base_offset)
        for segment in reversed(replaced)
    ]
    log.perform("compaction", [sync_directory, *removals, sync_directory, partial(_put_in, log, cleaned)])
    return cleaned


def _put_in(log: PartitionLog, cleaned: LogSegment) -> None:
    cleaned.rename(log.fs, SWAP_SUFFIX, "")
    log.segments.add(cleaned)


def discard(log: PartitionLog, cleaned: LogSegment) -> None:
    """The cleaned segment is not needed: its files go."""
    cleaned.close()
    try:
        for suffix in (CLEANED_SUFFIX, SWAP_SUFFIX):
            remove_files(log.fs, log.directory, cleaned.base_offset, suffix)
        log.fs.fsync_dir(log.directory)
    except FileNotFoundError:
        pass  # the partition was deleted meanwhile, which renames its directory
    except StorageFailure as error:
        log.failure = log.failure or error
        raise


def _take_out(log: PartitionLog, segment: LogSegment, now_ms: int, *, keeps_snapshot: bool) -> None:
    """As for a deleted segment, but the producers' state at the start of the new one stays."""
    if not keeps_snapshot:
        log.remove_segment(segment, now_ms)
        return
    log.segments.remove(segment)
    paths = segment.rename(log.fs, "", DELETED_SUFFIX)
    log.deleted_files.add(paths, now_ms + log.config.file_delete_delay_ms)
