"""The durable part of one log, and the files that a flush must sync.

recovery_point <= log_end_offset; records below it are durable
"""

from __future__ import annotations

from contextlib import suppress

from tidelog.protocol.ids import Offset
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import parent_directory
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.log.failures import LogFailures
from tidelog.storage.log.flush import FlushPlan
from tidelog.storage.log.leader_epoch_file_cache import LeaderEpochFileCache
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.observer import LogObserver
from tidelog.storage.log.opening import LogLocation
from tidelog.storage.log.settings import LogSettings
from tidelog.storage.recovery.log_loader import LoadedLog


class Durability:
    """The recovery point of a log, and the small files that wait for the next flush."""

    __slots__ = (
        "_directory",
        "_epochs",
        "_failures",
        "_fs",
        "_is_new_directory",
        "_last_flush_ms",
        "_observer",
        "_offsets",
        "_segments",
        "_settings",
        "_topic_partition",
        "_unsynced_paths",
        "generation",
        "recovery_point",
    )

    def __init__(
        self,
        location: LogLocation,
        loaded: LoadedLog,
        settings: LogSettings,
        observer: LogObserver,
        failures: LogFailures,
        offsets: LogOffsets,
        epochs: LeaderEpochFileCache,
    ) -> None:
        self._fs = location.fs
        self._directory = location.directory
        self._topic_partition = location.topic_partition
        self._settings = settings
        self._observer = observer
        self._failures = failures
        self._offsets = offsets
        self._segments = loaded.segments
        self._epochs = epochs
        self.recovery_point = loaded.recovery_point
        """The end of the durable records (exclusive)."""
        self.generation = 0
        """How often the log was truncated or moved since it was opened; see FlushPlan."""
        self._last_flush_ms = loaded.segments.active.created_ms
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

    @property
    def must_flush(self) -> bool:
        """Whether flush.messages requires a flush before an append is acknowledged."""
        return self._offsets.log_end_offset - self.recovery_point >= self._settings.config.flush_messages

    @property
    def committable_end(self) -> Offset:
        """The end of the records that count for the high watermark: only durable ones if `must_flush`."""
        return self.recovery_point if self.must_flush else self._offsets.log_end_offset

    def needs_flush(self, now_ms: int) -> bool:
        """Return whether flush.messages or flush.ms is reached, or a sealed segment is not durable."""
        config, unflushed = self._settings.config, self._offsets.log_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        return (
            unflushed >= config.flush_messages
            or now_ms - self._last_flush_ms >= config.flush_ms
            or self.recovery_point < self._segments.active.base_offset
        )

    # -- flushing

    def flush_plan(self, *, with_indexes: bool = True) -> FlushPlan:
        """Return what to sync so that all records in the log survive a crash; run it in any thread.

        Without `with_indexes` the active segment's indexes are synced when it rolls; opening the log rebuilds
        them until then. Errors: InterruptedChange until an interrupted change is complete; OSError.
        """
        self._failures.resume_interrupted()
        unflushed = self._segments.from_offset(self.recovery_point)
        if with_indexes:
            with suppress(OSError, StorageFailure):
                # The roll reports the error if it persists; after a crash the indexes are rebuilt.
                self._segments.active.files.write_indexes()
        changes = tuple(each for segment in unflushed for each in segment.files.unsynced_changes())
        logs = (segment.file for segment in unflushed if not isinstance(segment.file, OnDemandFile))
        directories = []
        is_new = any(segment.base_offset >= self.recovery_point for segment in unflushed)
        if is_new or any(each.is_new for each in changes):
            directories = [self._directory]
        if self._is_new_directory:
            directories = [self._directory, parent_directory(self._directory)]
        return FlushPlan(
            fs=self._fs,
            end_offset=self._offsets.log_end_offset,
            generation=self.generation,
            files=(*logs, *(each.file for each in changes)),
            changes=changes,
            epoch_write=self._epochs.planned_write(),
            paths=tuple(self._unsynced_paths),
            directories=tuple(directories),
        )

    def flushed(self, plan: FlushPlan, now_ms: int) -> None:
        """Raise the recovery point after `plan` has run without an error."""
        for changes in plan.changes:
            changes.owner.on_synced(changes)
        if plan.epoch_write is not None:
            self._epochs.on_written(plan.epoch_write)
        if plan.generation != self.generation:
            return
        self._raise_recovery_point(plan.end_offset)
        self._last_flush_ms = now_ms
        self._is_new_directory = False
        synced = set(plan.paths)
        self._unsynced_paths = [path for path in self._unsynced_paths if path not in synced]

    def _raise_recovery_point(self, end_offset: Offset) -> None:
        """Raise the recovery point to `end_offset`, and release the descriptors of sealed segments.

        A segment that was sealed after the plan was created has an index that is not durable. The recovery
        point stays at its start, so that the next flush or recovery includes it.
        """
        for segment in self._segments.from_offset(self.recovery_point):
            following = self._segments.higher(segment.base_offset)
            if following is None or following.base_offset > end_offset:
                break
            if segment.files.unsynced_changes():
                end_offset = segment.base_offset
                break
            segment.files.release_descriptors()
        self.recovery_point = max(self.recovery_point, end_offset)

    # -- truncation

    def on_truncation(self) -> None:
        """Ignore the outcome of flush plans that were created before a truncation."""
        self.generation += 1

    def lower_recovery_point(self, offset: Offset) -> None:
        """Lower the recovery point to `offset` at most, durably."""
        self.recovery_point = min(self.recovery_point, offset)
        self._observer.recovery_point_lowered(self._topic_partition)
