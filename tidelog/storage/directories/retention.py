"""Retention of all logs in one log directory, in steps.

    raise the log starts        one log in each step
    write the checkpoint        of all new log starts, in a thread
    write the leader epochs     of each tiered log that has new ones, in a thread
    remove the segments         one segment in each step; its files are renamed, and unlinked later

The checkpoint is durable before the first file is renamed, so that a crash in between never leaves a log
whose start is not in any segment (KAFKA-15352). Between two steps a log may be truncated, compacted or
deleted: segments that it no longer has are skipped. If the steps end early, the next run removes the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.protocol.errors import KafkaError
from tidelog.protocol.steps import Steps
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment

_log = logging.getLogger(__name__)


def apply_retention(directory: LogDirectory, now_ms: int) -> Steps[int]:
    """Delete expired segments of every log and return their number; report a log that fails.

    Segments that have been active for longer than segment.ms are rolled before.
    Errors: OSError, StorageFailure of the checkpoint.
    """
    expired: list[tuple[PartitionLog, list[LogSegment]]] = []
    for log in tuple(directory.logs.values()):
        if _is_in_use(directory, log):
            with _errors_reported(log):
                log.maybe_roll(now_ms)
                if found := log.retention.expire_segments(now_ms):
                    expired.append((log, found))
        yield None
    if not expired:
        return 0
    write = directory.checkpoints.planned_write(CheckpointKind.LOG_START_OFFSET)
    if write is not None:
        yield write
    removed_count = 0
    for log, segments in expired:
        removed_count += yield from _remove(directory, log, segments, now_ms)
    return removed_count


def _remove(
    directory: LogDirectory, log: PartitionLog, segments: list[LogSegment], now_ms: int
) -> Steps[int]:
    """Remove `segments` of one log, and return how many it still had."""
    removed_count = 0
    with _errors_reported(log):
        if log.remote_log_enabled and (write := log.epoch_file.planned_write()) is not None:
            with log.failures.storage_errors("deletion of segments"):
                yield write.run
            log.epoch_file.on_written(write)
        for segment in segments:
            if not _is_in_use(directory, log):
                break
            removed_count += log.retention.remove_expired([segment], now_ms)
            yield None
    return removed_count


def _is_in_use(directory: LogDirectory, log: PartitionLog) -> bool:
    return directory.offline_reason is None and directory.logs.get(log.topic_partition) is log


@contextmanager
def _errors_reported(log: PartitionLog) -> Iterator[None]:
    try:
        yield
    except KafkaError as error:
        _log.error("retention of %s: %s", log.topic_partition, error)
