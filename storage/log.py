"""One partition's log: an ordered run of batches in segments, with its offsets, epochs and producers.

One thread owns a log; only `FlushPlan.run` and reads of a `FileSlice` happen elsewhere.

Errors: KafkaError with the code for the reply. A write that fails leaves the log as it was and raises
KAFKA_STORAGE_ERROR; when even that is uncertain (a failed fsync, a failed repair) the log refuses every
further write, and its log directory has to be taken offline.
Source: UnifiedLog and LocalLog of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

from protocol.batch import LOG_OVERHEAD, BatchHeader, stamp, stamped
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import LeaderEpoch, Offset, TopicPartition
from storage import log_truncation
from storage.config import LogConfig
from storage.errors import CorruptFile, StorageFailure
from storage.file_slice import FileSlice
from storage.files import FileSystem, parent_directory
from storage.flush import FlushPlan
from storage.log_append import AppendInfo, read_given_batches, read_markers
from storage.log_loader import LogLoader
from storage.log_lookup import RecordPlace
from storage.log_observer import LogObserver, NoObserver
from storage.log_read import ReadResult
from storage.log_reader import ReadableLog
from storage.log_roll import roll_segment
from storage.producer_entry import BatchMetadata
from storage.producer_state import DEFAULT_PRODUCER_ID_EXPIRATION_MS
from storage.retention import LogBounds, expired_segments
from storage.segment import LogSegment
from storage.transaction_marker import EndTransactionMarker
from storage.txn_index import AbortedTransaction
from storage.validation import AppendOrigin, read_single_batch, validate_batch

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


class PartitionLog(ReadableLog):
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
    ) -> PartitionLog:
        """Open the directory, made when missing; without `clean` what is above `recovery_point` is verified.

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
        )
        loaded = loader.load()
        return cls(fs, directory, topic_partition, topic_id, config, loaded, now_ms, observer or NoObserver())

    # -- appending

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = 0,
    ) -> AppendInfo:
        """Check one batch, give it the next offsets and the epoch (in place), and append it.

        With `AppendOrigin.RAFT` there may be several batches, which have their offsets and epoch already.
        `transaction_version` is the transaction.version feature by which a coordinator's marker is checked.
        Errors: KafkaError, see storage.validation, storage.producer_entry and the module.
        """
        if self.failure is not None:
            self.refuse_after_failure()
        if origin is _RAFT:
            return self._append_of_quorum(records, leader_epoch, now_ms)
        header = read_single_batch(records)
        changed = validate_batch(records, header, self.rules, origin, now_ms)
        if changed is not None:
            records, header = changed
        size_bytes = header.batch_length + LOG_OVERHEAD
        if size_bytes != len(records):
            records = memoryview(records)[:size_bytes]
        first_offset = self.log_end_offset
        stamp(records, 0, first_offset, leader_epoch)
        if not header.is_control:
            return self._append_data(records, header, first_offset, leader_epoch, now_ms, origin)
        header = stamped(header, first_offset, leader_epoch)
        return self._append(records, [header], now_ms, origin, transaction_version)

    def append_as_follower(
        self, records: bytes | bytearray | memoryview, now_ms: int, *, leader_epoch: LeaderEpoch | None = None
    ) -> AppendInfo | None:
        """Append the whole batches of a leader's answer as they are; None when there is not one.

        Batches of an epoch above `leader_epoch`, when that is given, are left out.
        Errors: KafkaError CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE when offsets do not continue the log.
        """
        self.refuse_after_failure()
        given = read_given_batches(records, self.topic_partition, self.log_end_offset, leader_epoch)
        if not given.batches:
            return None
        data = memoryview(records)[: given.size_bytes]
        return self._append(data, given.batches, now_ms, AppendOrigin.REPLICATION)

    def _append_of_quorum(
        self, records: bytearray | memoryview, leader_epoch: LeaderEpoch, now_ms: int
    ) -> AppendInfo:
        given = read_given_batches(records, self.topic_partition, self.log_end_offset, None)
        if not given.batches or given.size_bytes != len(records):
            raise KafkaError(ErrorCode.INVALID_RECORD, f"{self.topic_partition}: no whole batches to append")
        for header in given.batches:
            if header.partition_leader_epoch != leader_epoch:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD,
                    f"batch at offset {header.base_offset} has epoch {header.partition_leader_epoch}, "
                    f"the leader's is {leader_epoch}",
                )
        return self._append(records, given.batches, now_ms, AppendOrigin.RAFT)

    def _append_data(
        self,
        data: bytearray | memoryview,
        header: BatchHeader,
        first_offset: Offset,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        origin: AppendOrigin,
    ) -> AppendInfo:
        """What `_append` comes to for one batch that is no control batch, without what only others need.

        Offset and epoch are those that were stamped; `header` may still have the client's.
        """
        size_bytes, rules, newest = len(data), self.rules, header.max_timestamp
        if size_bytes > rules.segment_bytes:
            raise self._too_large(size_bytes)
        producers, has_producer = self.producers, header.producer_id >= 0
        if has_producer:
            duplicate = producers.check(header, first_offset, origin)
            if duplicate is not None:
                return self._duplicate_info(duplicate, size_bytes)
        last_offset = first_offset + header.last_offset_delta
        try:
            if leader_epoch != self.written_epoch:
                self.assign_leader_epoch(leader_epoch, first_offset)
            segment = self.segments.active
            if segment.is_due_to_roll(self.config, size_bytes, last_offset, newest, now_ms):
                segment = self.roll(now_ms, first_offset)
            segment.append_batch(data, first_offset, last_offset, newest)
        except (OSError, StorageFailure, CorruptFile) as error:
            raise self.storage_error("append", error) from error
        self.log_end_offset = producers.map_end_offset = last_offset + 1
        if has_producer:
            producers.update(header, first_offset)
            if header.is_transactional:
                self.update_first_unstable_offset()
        log_append_time = newest if rules.log_append_time else -1
        return AppendInfo(
            first_offset, last_offset, newest, log_append_time, self.log_start_offset, size_bytes, False
        )

    def _append(
        self,
        data: bytes | bytearray | memoryview,
        batches: list[BatchHeader],
        now_ms: int,
        origin: AppendOrigin,
        transaction_version: int = 0,
    ) -> AppendInfo:
        size_bytes, rules = len(data), self.rules
        if size_bytes > rules.segment_bytes:
            raise self._too_large(size_bytes)
        first, last = batches[0], batches[-1]
        last_offset = last.base_offset + last.last_offset_delta
        newest = first.max_timestamp if first is last else max(h.max_timestamp for h in batches)
        markers: list[EndTransactionMarker | None] | None = None
        if first.producer_id >= 0 or first is not last:
            markers = read_markers(data, batches)
            duplicate = None
            if first.producer_id >= 0:
                duplicate = self.producers.check(
                    first, first.base_offset, origin, markers[0], transaction_version=transaction_version
                )
            if duplicate is not None:
                return self._duplicate_info(duplicate, size_bytes)
        try:
            for header in batches:
                if header.partition_leader_epoch != self.written_epoch:
                    self.assign_leader_epoch(header.partition_leader_epoch, header.base_offset)
            segment = self.segments.active
            if segment.is_due_to_roll(self.config, size_bytes, last_offset, newest, now_ms):
                segment = self.roll(now_ms, first.base_offset)
            segment.append(data, batches)
        except (OSError, StorageFailure, CorruptFile) as error:
            raise self.storage_error("append", error) from error
        self.log_end_offset = self.producers.map_end_offset = last_offset + 1
        if markers is not None:
            self._update_producers(segment, batches, markers)
        log_append_time = newest if rules.log_append_time else -1
        return AppendInfo(
            first.base_offset, last_offset, newest, log_append_time, self.log_start_offset, size_bytes, False
        )

    def _too_large(self, size_bytes: int) -> KafkaError:
        return KafkaError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"{size_bytes} bytes to append, segment.bytes is {self.rules.segment_bytes}",
        )

    def _duplicate_info(self, duplicate: BatchMetadata, size_bytes: int) -> AppendInfo:
        return AppendInfo(
            duplicate.first_offset,
            duplicate.last_offset,
            duplicate.timestamp,
            duplicate.timestamp if self.rules.log_append_time else -1,
            self.log_start_offset,
            size_bytes,
            True,
        )

    def _update_producers(
        self, segment: LogSegment, batches: list[BatchHeader], markers: list[EndTransactionMarker | None]
    ) -> None:
        producers, are_transactional = self.producers, False
        for header, marker in zip(batches, markers, strict=True):
            if header.producer_id < 0:
                continue
            are_transactional = are_transactional or header.is_transactional or header.is_control
            completed = producers.update(header, header.base_offset, marker)
            if completed is None:
                continue
            if completed.is_aborted:
                stable = producers.last_stable_offset_after(completed)
                aborted = AbortedTransaction(
                    completed.producer_id, completed.first_offset, completed.last_offset, stable
                )
                with self.storage_errors("append", is_final=True):
                    segment.txn_index.append(aborted)
            producers.complete_transaction(completed)
        if are_transactional:
            self.update_first_unstable_offset()

    # -- segments

    def roll(self, now_ms: int, next_offset: Offset | None = None) -> LogSegment:
        """Seal the active segment and start another at the log end, or at `next_offset` above it.

        An active segment that is empty and already starts there stays the active one.
        """
        base_offset = max(self.log_end_offset, next_offset or 0)
        with self.storage_errors("roll"):
            return roll_segment(self, base_offset, now_ms)

    def maybe_roll(self, now_ms: int) -> bool:
        """Roll a segment that has been the active one for longer than segment.ms, however old its records."""
        active = self.segments.active
        age_ms = now_ms - active.created_ms
        if active.size_bytes == 0 or age_ms <= self.config.segment_ms - active.roll_jitter_ms:
            return False
        self.roll(now_ms)
        return True

    def advance_log_start_offset(self, offset: Offset) -> bool:
        """Hide what is below `offset` from readers, as DeleteRecords asks; True when the start moved.

        Errors: KafkaError OFFSET_OUT_OF_RANGE above the high watermark.
        """
        if offset > self.high_watermark:
            raise KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.topic_partition}: log start offset {offset} would pass the high watermark "
                f"{self.high_watermark}",
            )
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        # Not written at once: opening the log derives the same from the log start offset.
        self.leader_epochs.truncate_from_start(offset)
        self.producers.on_log_start_offset_incremented(offset)
        self.update_first_unstable_offset()
        return True

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

    def expire_segments(self, now_ms: int) -> list[LogSegment]:
        """The first half of `apply_retention`: move the log start behind the expired segments, and name them.

        They are passed to `remove_expired` once the log start is durable.
        """
        self.refuse_after_failure()
        bounds = LogBounds(self.log_start_offset, self.high_watermark, self.log_end_offset)
        expired = expired_segments(list(self.segments), self.config, bounds, now_ms)
        if expired:
            if len(expired) == len(self.segments):
                self.roll(now_ms)
            following = self.segments.higher(expired[-1].base_offset)
            assert following is not None
            self.advance_log_start_offset(following.base_offset)
        return expired

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

    # -- durability

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

    def flush_plan(self) -> FlushPlan:
        """What to sync so that all that is in the log now survives a crash; run it in any thread."""
        unflushed = self.segments.from_offset(self.recovery_point)
        with suppress(OSError, StorageFailure):
            # Should it fail, the next append or the roll says so; a crash before has the indexes rebuilt.
            self.segments.active.write_indexes()
        directories = []
        if any(segment.base_offset >= self.recovery_point for segment in unflushed):
            directories = [self.directory]
        if self.is_new_directory:
            directories = [self.directory, parent_directory(self.directory)]
        return FlushPlan(
            fs=self.fs,
            end_offset=self.log_end_offset,
            generation=self.generation,
            files=tuple(file for segment in unflushed for file in segment.files()),
            paths=tuple(self.unsynced_paths),
            directories=tuple(directories),
        )

    def flushed(self, plan: FlushPlan, now_ms: int) -> None:
        """A plan has run without an error: raise the recovery point."""
        if plan.generation != self.generation:
            return
        self.recovery_point = max(self.recovery_point, plan.end_offset)
        self.last_flush_ms = now_ms
        self.is_new_directory = False
        synced = set(plan.paths)
        self.unsynced_paths = [path for path in self.unsynced_paths if path not in synced]

    def flush(self, now_ms: int) -> None:
        """Make everything durable now, in this thread."""
        plan = self.flush_plan()
        with self.storage_errors("flush", is_final=True):
            plan.run()
        self.flushed(plan, now_ms)

    def close(self, *, clean: bool, now_ms: int = 0) -> None:
        """Close the files. `clean` makes all of it durable first, so that opening needs no recovery."""
        if clean and self.failure is None:
            with self.storage_errors("close", is_final=True):
                self.segments.active.complete_indexes()
                self.producers.map_end_offset = self.log_end_offset
                snapshot = self.producers.take_snapshot(sync=False)
                if snapshot is not None:
                    self.unsynced_paths.append(snapshot)
            self.flush(now_ms)
        self.segments.close()
