"""One partition's log: an ordered run of batches in segments, with its offsets, epochs and producers.

One thread owns a log; only `FlushPlan.run` and reads of a `FileSlice` happen elsewhere.

Errors: KafkaError with the code for the reply. A write that fails leaves the log as it was and raises
KAFKA_STORAGE_ERROR; when even that is uncertain (a failed fsync, a failed repair) the log refuses every
further write, and its log directory has to be taken offline.
Source: UnifiedLog and LocalLog of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import FileSystem, parent_directory
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log import truncation as log_truncation
from tidelog.storage.log.append import AppendInfo
from tidelog.storage.log.flush import FlushPlan
from tidelog.storage.log.lookup import RecordPlace
from tidelog.storage.log.observer import LogObserver, NoObserver
from tidelog.storage.log.read import ReadResult
from tidelog.storage.log.tiered import TieredLog
from tidelog.storage.log.tiered_retention import has_remote_part
from tidelog.storage.log.validation import AppendOrigin
from tidelog.storage.producers.producer_state import DEFAULT_PRODUCER_ID_EXPIRATION_MS
from tidelog.storage.recovery.log_loader import LogLoader
from tidelog.storage.segment.file_slice import FileSlice
from tidelog.storage.segment.segment import LogSegment

__all__ = [
    "AppendInfo",
    "AppendOrigin",
    "FileSlice",
    "FlushPlan",
    "PartitionLog",
    "ReadResult",
    "RecordPlace",
]

_RAFT: Final = AppendOrigin.RAFT


class PartitionLog(TieredLog):
    """The log of one partition directory; see the module for its errors."""

    @classmethod
    def open(
        cls,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        *,
        now_ms: int,
        recovery_point: Offset = 0,
        log_start_offset: Offset = 0,
        clean: bool,
        observer: LogObserver | None = None,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
        remote_storage_system_enable: bool = True,
        has_been_compacted: bool = False,
    ) -> PartitionLog:
        """Open the directory, made when missing; without `clean` what is above `recovery_point` is verified.

        `remote_storage_system_enable` says whether the node has remote storage, for topics that want it;
        `has_been_compacted` that the log may have gaps, whatever its settings are by now.

        Errors: CorruptLog and UnsupportedFormat by file name; OSError, StorageFailure.
        """
        fs.makedirs(directory)
        loader = LogLoader(
            fs=fs,
            directory=directory,
            topic_partition=topic_partition,
            config=config,
            now_ms=now_ms,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            clean=clean,
            producer_id_expiration_ms=producer_id_expiration_ms,
            may_have_gaps=config.is_compacted or has_been_compacted,
            has_remote_part=has_remote_part(
                topic_partition, config, is_system_enabled=remote_storage_system_enable
            ),
        )
        return cls(
            fs,
            directory,
            topic_partition,
            topic_id,
            config,
            loader.load(),
            now_ms,
            observer or NoObserver(),
            remote_storage_system_enable=remote_storage_system_enable,
        )

    # -- retention

    def apply_retention(self, now_ms: int) -> int:
        """Delete the segments that are too old, too many or below the log start; how many that were.

        The new log start is made durable before any file is touched, so that a crash in between never
        leaves a log that starts in the void (KAFKA-15352).
        """
        expired = self.expire_segments(now_ms)
        if expired:
            with self.storage_errors("deletion of segments"):
                self.observer.log_start_offset_changed(self)
            self.remove_expired(expired, now_ms)
        return len(expired)

    def remove_expired(self, expired: Iterable[LogSegment], now_ms: int) -> None:
        """The second half of `apply_retention`: the segments' files go out of use."""
        with self.storage_errors("deletion of segments"):
            for segment in expired:
                self.remove_segment(segment, now_ms)

    def remove_segment(self, segment: LogSegment, now_ms: int) -> None:
        """Take a segment out of use: its files are renamed now and unlinked after file.delete.delay.ms."""
        self.segments.remove(segment)
        paths = segment.rename(self.fs, "", ".deleted")
        snapshot = self.producers.snapshots.mark_for_deletion(segment.base_offset)
        if snapshot is not None:
            paths.append(snapshot)
        self.deleted_files.add(paths, now_ms + self.config.file_delete_delay_ms)

    def delete_expired_files(self, now_ms: int) -> int:
        """Unlink the files of segments that were deleted file.delete.delay.ms ago; how many."""
        with self.storage_errors("unlinking of deleted files"):
            return self.deleted_files.remove_due(self.fs, now_ms)

    def truncate_to(self, offset: Offset, now_ms: int = 0, *, below_high_watermark: bool = False) -> bool:
        """Remove the batch that holds `offset` and all behind it, durably; True when there was one.

        Errors: KafkaError below the high watermark, unless the caller says that it knows: what is
        below it was promised to readers (KAFKA-12460).
        """
        self.refuse_after_failure()
        with self.storage_errors("truncation", is_final=True):
            return log_truncation.truncate_to(self, offset, now_ms, below_high_watermark)

    def truncate_fully_and_start_at(self, offset: Offset, now_ms: int = 0) -> None:
        """Drop everything and go on at `offset`, as a follower does whose leader starts there."""
        self.refuse_after_failure()
        with self.storage_errors("truncation", is_final=True):
            log_truncation.truncate_fully_and_start_at(self, offset, now_ms)

    def restart_from_remote(
        self,
        *,
        log_start_offset: Offset,
        local_log_start_offset: Offset,
        leader_epochs: Sequence[EpochEntry],
        producer_snapshot: bytes | None,
        now_ms: int,
    ) -> None:
        """Drop everything local and go on at `local_log_start_offset`, behind what remote storage holds.

        `leader_epochs` are those of the records from `log_start_offset` up to there, `producer_snapshot`
        is the producers' state there, as a `.snapshot` file has it.
        Errors: CorruptSnapshot as KafkaError CORRUPT_MESSAGE, before anything has changed.
        """
        self.refuse_after_failure()
        with self.storage_errors("restart behind remote storage", is_final=True):
            log_truncation.restart_from_remote(
                self, log_start_offset, local_log_start_offset, leader_epochs, producer_snapshot, now_ms
            )

    # -- durability

    def write_leader_epochs(self) -> None:
        """Make the leader epochs durable, and before that a log start with which they begin.

        Opening a tiered log cannot tell epochs that begin in the local part from such as were rebuilt there.
        """
        if self.has_start_in_local_part and self.remote_log_enabled:
            self.observer.log_start_offset_changed(self)
            self.has_start_in_local_part = False
        super().write_leader_epochs()

    @property
    def must_flush(self) -> bool:
        """Whether flush.messages asks for the log to be durable before anything more is promised."""
        return self.log_end_offset - self.recovery_point >= self.config.flush_messages

    def needs_flush(self, now_ms: int) -> bool:
        """Whether flush.messages or flush.ms is reached, or a sealed segment waits to become durable."""
        unflushed = self.log_end_offset - self.recovery_point
        if unflushed <= 0:
            return False
        return (
            unflushed >= self.config.flush_messages
            or now_ms - self.last_flush_ms >= self.config.flush_ms
            or self.recovery_point < self.segments.active.base_offset
        )

    def flush_plan(self, *, with_indexes: bool = True) -> FlushPlan:
        """Return what to sync so that all that is in the log now survives a crash; run it in any thread.

        Without `with_indexes` the active segment's indexes are left to the roll: opening the log makes them
        again. Errors: InterruptedChange, until a change that was interrupted is complete.
        """
        self.resume_interrupted()
        unflushed = self.segments.from_offset(self.recovery_point)
        if with_indexes:
            with suppress(OSError, StorageFailure):
                # Should it fail, the roll says so; a crash before has the indexes rebuilt.
                self.segments.active.write_indexes()
        changes = tuple(each for segment in unflushed for each in segment.unsynced())
        logs = (segment.file for segment in unflushed if not isinstance(segment.file, OnDemandFile))
        directories = []
        is_new = any(segment.base_offset >= self.recovery_point for segment in unflushed)
        if is_new or any(each.is_new for each in changes):
            directories = [self.directory]
        if self.is_new_directory:
            directories = [self.directory, parent_directory(self.directory)]
        return FlushPlan(
            fs=self.fs,
            end_offset=self.log_end_offset,
            generation=self.generation,
            files=(*logs, *(each.file for each in changes)),
            changes=changes,
            paths=tuple(self.unsynced_paths),
            directories=tuple(directories),
        )

    def flushed(self, plan: FlushPlan, now_ms: int) -> None:
        """A plan has run without an error: raise the recovery point."""
        for changes in plan.changes:
            changes.owner.synced(changes)
        if plan.generation != self.generation:
            return
        self._raise_recovery_point(plan.end_offset)
        self.last_flush_ms = now_ms
        self.is_new_directory = False
        synced = set(plan.paths)
        self.unsynced_paths = [path for path in self.unsynced_paths if path not in synced]

    def _raise_recovery_point(self, end_offset: Offset) -> None:
        """Note that everything below `end_offset` is durable, and release the descriptors of what is sealed.

        A segment that was sealed since the flush began has an index that is not durable yet: it stays above
        the recovery point, so that the next flush or recovery looks at it.
        """
        for segment in self.segments.from_offset(self.recovery_point):
            following = self.segments.higher(segment.base_offset)
            if following is None or following.base_offset > end_offset:
                break
            if segment.unsynced():
                end_offset = segment.base_offset
                break
            segment.release_descriptors()
        self.recovery_point = max(self.recovery_point, end_offset)

    def flush(self, now_ms: int) -> None:
        """Make everything durable now, in this thread."""
        plan = self.flush_plan()
        with self.storage_errors("flush", is_final=True):
            plan.run()
        self.flushed(plan, now_ms)

    def close(self, *, clean: bool, now_ms: int = 0) -> None:
        """Close the files. `clean` makes all of it durable first, so that opening needs no recovery."""
        with suppress(KafkaError):
            self.resume_interrupted()
        if clean and self.failure is None:
            with self.storage_errors("close", is_final=True):
                self.segments.active.complete_indexes()
                self.producers.map_end_offset = self.log_end_offset
                snapshot = self.producers.take_snapshot(sync=False)
                if snapshot is not None:
                    self.unsynced_paths.append(snapshot)
            self.flush(now_ms)
        self.segments.close()
