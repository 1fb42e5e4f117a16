"""Periodic work on all logs of a node: retention, removal of deleted files, checkpoints, flushes, producers.

A scheduler calls these methods at their intervals. Slow work is returned to the caller, which runs it in
another thread, or consists of steps.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from tidelog.protocol.errors import KafkaError
from tidelog.protocol.steps import Steps
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.directory_work import DirectoryWork
from tidelog.storage.directories.log_directories import LogDirectories
from tidelog.storage.directories.retention import apply_retention
from tidelog.storage.disk.deleted_files import remove_paths
from tidelog.storage.disk.errors import is_descriptor_shortage
from tidelog.storage.log.partition_log import PartitionLog

_log = logging.getLogger(__name__)


class LogMaintenance:
    """Maintains the logs in the directories that are online."""

    def __init__(self, directories: LogDirectories) -> None:
        self._directories = directories

    def apply_retention(self, now_ms: int) -> Steps[int]:
        """Delete expired segments of every log; return their number (log.retention.check.interval.ms).

        A directory whose disk fails goes offline.
        """
        self._directories.take_failed_offline()
        removed_count = 0
        for directory in self._directories.online:
            try:
                with self._directories.offline_on_failure(directory):
                    removed_count += yield from apply_retention(directory, now_ms)
            except KafkaError as error:
                _log.error("maintenance of log directory %s failed: %s", directory.path, error)
        return removed_count

    def planned_removals(self, now_ms: int) -> list[DirectoryWork]:
        """Return the removals of files that were deleted file.delete.delay.ms ago, for another thread."""
        return [
            DirectoryWork(
                each,
                "removal of deleted files",
                partial(remove_paths, each.fs, paths),
                plan_again=partial(each.put_back_expired, paths, now_ms),
            )
            for each in self._directories.online
            if (paths := each.take_expired(now_ms))
        ]

    def planned_checkpoints(self, kind: CheckpointKind) -> list[DirectoryWork]:
        """Return the writes of a checkpoint in every directory where it has changed, for another thread."""
        self._directories.take_failed_offline()
        return [
            DirectoryWork(each, f"{kind.value} checkpoint", write)
            for each in self._directories.online
            if (write := each.checkpoints.planned_write(kind)) is not None
        ]

    def work_failed(self, work: DirectoryWork, error: Exception) -> None:
        """Take the directory of failed work offline; nothing is retried.

        If no descriptor was available, the disk has not failed: the work is planned again.
        """
        if work.plan_again is not None and is_descriptor_shortage(error):
            work.plan_again()
        self._directories.operation_failed(work.directory, error, work.name)

    def report_faults(self) -> None:
        """Log how often operations were refused since the last call, and faults that have ended."""
        for directory in self._directories.online:
            directory.faults.report()

    def remove_expired_producers(self, now_ms: int) -> None:
        """Remove idle producers of every log (producer.id.expiration.check.interval.ms)."""
        for log in self._directories.logs:
            log.producers.remove_expired(now_ms)

    def request_flushes(self, flush: Callable[[PartitionLog], object], now_ms: int) -> Steps[None]:
        """Call `flush` with each log whose flush.messages or flush.ms is reached, or with a sealed segment.

        `flush` runs `flush_plan()` in another thread, then calls `flushed` or `disk_failed`.
        """
        for directory in self._directories.online:
            for log in tuple(directory.logs.values()):
                if directory.logs.get(log.topic_partition) is log and log.durability.needs_flush(now_ms):
                    flush(log)
                yield None
