"""The durable part of one log, and the files that a flush must sync.

recovery_point <= log_end_offset; records below it are durable
"""

from __future__ import annotations

from contextlib import suppress

from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import FileSystem, parent_directory
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.log.flush import FlushPlan
from tidelog.storage.log.leader_epoch_file_cache import LeaderEpochFileCache
from tidelog.storage.log.observer import LogObserver
from tidelog.storage.log.settings import LogSettings
from tidelog.storage.segment.segments import Segments


class Durability:
    """The recovery point of a log, and the small files that wait for the next flush."""

    __slots__ = (
        "_directory",
        "_fs",
        "_is_new_directory",
        "_last_flush_ms",
        "_observer",
        "_settings",
        "_topic_partition",
        "_unsynced_paths",
        "generation",
        "recovery_point",
    )

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        settings: LogSettings,
        observer: LogObserver,
        recovery_point: Offset,
        now_ms: int,
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._topic_partition = topic_partition
        self._settings = settings
        self._observer = observer
        self.recovery_point = recovery_point
        self.generation = 0
        """How often the log was truncated or moved; see FlushPlan."""
        self._last_flush_ms = now_ms
        self._is_new_directory = True
        self._unsynced_paths: list[str] = []

    def add_unsynced_path(self, path: str | None) -> None:
        """Sync a small file that was written without a sync with the next flush; ignore None."""
        if path is not None:
            self._unsynced_paths.append(path)

    def relocate(self, directory: str) -> None:
        """Sync the names in `directory` with the next flush: the log is stored there.

        All that is below the recovery point must be durable there, and also all small files. Flush plans for
        the previous directory do not count.
        """
        self._directory = directory
        self._is_new_directory = True
        self._unsynced_paths.clear()
        self.generation += 1

    # -- when to flush

    def must_flush(self, log_end_offset: Offset) -> bool:
        """Return whether flush.messages requires a flush before an append is acknowledged."""
        return log_end_offset - self.recovery_point >= self._settings.config.flush_messages

    def needs_flush(self, log_end_offset: Offset, active_base_offset: Offset, now_ms: int) -> bool:
        """Return whether flush.messages or flush.ms is reached, or a sealed segment is not durable."""
        config, unflushed = self._settings.config, log_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        return (
            unflushed >= config.flush_messages
            or now_ms - self._last_flush_ms >= config.flush_ms
            or self.recovery_point < active_base_offset
        )

    # -- flushing

    def flush_plan(
        self, segments: Segments, epochs: LeaderEpochFileCache, end_offset: Offset, *, with_indexes: bool
    ) -> FlushPlan:
        """Return what to sync so that all records below `end_offset` survive a crash.

        Without `with_indexes` the active segment's indexes become durable when it rolls; opening the log
        rebuilds them until then.
        """
        unflushed = segments.from_offset(self.recovery_point)
        if with_indexes:
            with suppress(OSError, StorageFailure):
                # The roll reports the error if it persists; after a crash the indexes are rebuilt.
                segments.active.write_indexes()
        changes = tuple(each for segment in unflushed for each in segment.unsynced())
        logs = (segment.file for segment in unflushed if not isinstance(segment.file, OnDemandFile))
        directories = []
        is_new = any(segment.base_offset >= self.recovery_point for segment in unflushed)
        if is_new or any(each.is_new for each in changes):
            directories = [self._directory]
        if self._is_new_directory:
            directories = [self._directory, parent_directory(self._directory)]
        return FlushPlan(
            fs=self._fs,
            end_offset=end_offset,
            generation=self.generation,
            files=(*logs, *(each.file for each in changes)),
            changes=changes,
            epoch_write=epochs.planned_write(),
            paths=tuple(self._unsynced_paths),
            directories=tuple(directories),
        )

    def flushed(self, plan: FlushPlan, segments: Segments, epochs: LeaderEpochFileCache, now_ms: int) -> None:
        """Raise the recovery point after `plan` has run without an error."""
        for changes in plan.changes:
            changes.owner.synced(changes)
        if plan.epoch_write is not None:
            epochs.on_written(plan.epoch_write)
        if plan.generation != self.generation:
            return
        self._raise_recovery_point(segments, plan.end_offset)
        self._last_flush_ms = now_ms
        self._is_new_directory = False
        synced = set(plan.paths)
        self._unsynced_paths = [path for path in self._unsynced_paths if path not in synced]

    def _raise_recovery_point(self, segments: Segments, end_offset: Offset) -> None:
        """Raise the recovery point to `end_offset`, and release the descriptors of sealed segments.

        A segment that was sealed after the plan was created has an index that is not durable. The recovery
        point stays at its start, so that the next flush or recovery includes it.
        """
        for segment in segments.from_offset(self.recovery_point):
            following = segments.higher(segment.base_offset)
            if following is None or following.base_offset > end_offset:
                break
            if segment.unsynced():
                end_offset = segment.base_offset
                break
            segment.release_descriptors()
        self.recovery_point = max(self.recovery_point, end_offset)

    # -- truncation

    def on_truncation(self) -> None:
        """Ignore the outcome of flush plans that were created before a truncation."""
        self.generation += 1

    def lower_recovery_point(self, offset: Offset) -> None:
        """Lower the recovery point to `offset` at most, durably."""
        self.recovery_point = min(self.recovery_point, offset)
        self._observer.recovery_point_lowered(self._topic_partition)
