"""One partition's log: an ordered sequence of batches in segments, with its offsets, epochs and producers.

| part | owns |
|---|---|
| LogOffsets | log start, log end, high watermark, last stable offset, first dirty offset |
| LogSegments | the segments and their files |
| ProducerStateManager | sequences, epochs and transactions of producers |
| LeaderEpochFileCache | the leader epochs and their file |
| RemoteBorder | what is known about the remote part |
| Durability | the recovery point, when to flush, and what a flush syncs |
| LogFailures | whether the files are in a known state, and interrupted changes |
| LogAppender, LogStart, LogRetention, LogTruncation, SegmentReplacement | no state; they use several parts |

Appends, reads, truncations and the offsets that all callers need are methods of PartitionLog. For the rest,
callers use the public parts: `segments`, `producers`, `durability`, `epoch_file`, `remote_border`,
`retention`, `failures`, `timestamps` and `replacement`.

One thread owns a log. Only `FlushPlan.run` and reads of a `FileSlice` run in other threads.

Errors: KafkaError with the code for the response. A write that fails leaves the log as it was and raises
KAFKA_STORAGE_ERROR. If that is uncertain (a failed fsync, a failed repair), the log refuses all further
writes, and its log directory must go offline.
Source: UnifiedLog and LocalLog of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from tidelog.protocol.batch import ATTRIBUTE_CONTROL, LOG_OVERHEAD, stamp, stamped
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset
from tidelog.protocol.steps import Steps, run_steps
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.checkpoints import LeaderEpochCheckpoint
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.disk.files import File
from tidelog.storage.disk.log_files import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.leader_epoch import LeaderEpochCache
from tidelog.storage.log import read as log_read
from tidelog.storage.log.append import AppendInfo, read_assigned_batches
from tidelog.storage.log.appender import LogAppender
from tidelog.storage.log.durability import Durability
from tidelog.storage.log.failures import LogFailures
from tidelog.storage.log.flush import FlushPlan
from tidelog.storage.log.leader_epoch_file_cache import LeaderEpochFileCache
from tidelog.storage.log.log_offsets import LogOffsets
from tidelog.storage.log.log_retention import LogRetention
from tidelog.storage.log.log_segments import LogSegments
from tidelog.storage.log.log_start import LogStart
from tidelog.storage.log.lookup import RecordPlace, TimestampLookup
from tidelog.storage.log.observer import LogObserver, NoObserver, ReplaceableObserver
from tidelog.storage.log.opening import CheckpointedState, LogLocation, LogOptions
from tidelog.storage.log.read import ReadResult
from tidelog.storage.log.remote_border import RemoteBorder
from tidelog.storage.log.segment_replacement import SegmentReplacement
from tidelog.storage.log.settings import LogSettings
from tidelog.storage.log.tiered_retention import has_remote_part
from tidelog.storage.log.truncation import LogTruncation, RemoteState
from tidelog.storage.log.validation import read_single_batch, validation
from tidelog.storage.log.validation_rules import ValidatedBatch, ValidationRules
from tidelog.storage.producers.producer_state import ProducerStateManager
from tidelog.storage.producers.verification import Verification
from tidelog.storage.recovery.log_loader import LoadedLog, LogLoader
from tidelog.storage.segment.file_slice import FileSlice
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segments import Segments
from tidelog.storage.segment.txn_index import AbortedTransaction

__all__ = ["AppendInfo", "FileSlice", "FlushPlan", "PartitionLog", "ReadResult", "RecordPlace"]

_CLIENT: Final = AppendOrigin.CLIENT
_RAFT: Final = AppendOrigin.RAFT


class PartitionLog:
    """The log of one partition directory; see the module for its parts and errors."""

    def __init__(
        self,
        location: LogLocation,
        config: LogConfig,
        checkpointed: CheckpointedState,
        loaded: LoadedLog,
        observer: LogObserver,
        options: LogOptions,
    ) -> None:
        fs, directory, topic_partition = location.fs, location.directory, location.topic_partition
        self.fs = fs
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = location.topic_id
        self.segments: Segments = loaded.segments
        self.producers: ProducerStateManager = loaded.producers
        settings = self._settings = LogSettings(config)
        observer = self._observer = ReplaceableObserver(observer)
        failures = self.failures = LogFailures(directory, observer)
        offsets = self._offsets = LogOffsets(
            topic_partition,
            observer,
            loaded.producers,
            log_start_offset=loaded.log_start_offset,
            local_log_start_offset=loaded.local_log_start_offset,
            log_end_offset=loaded.log_end_offset,
            first_dirty_offset=checkpointed.first_dirty_offset,
        )
        border = self.remote_border = RemoteBorder(
            topic_partition, settings, offsets, is_system_enabled=options.remote_storage_system_enable
        )
        epochs = self.epoch_file = LeaderEpochFileCache(
            loaded.leader_epochs, loaded.leader_epoch_checkpoint, border
        )
        self.durability = Durability(location, loaded, settings, observer, failures, offsets, epochs)
        segments = self._log_segments = LogSegments(
            fs, directory, settings, loaded.segments, loaded.producers, self.durability
        )
        log_start = self._log_start = LogStart(offsets, border, epochs, loaded.producers)
        self.timestamps = TimestampLookup(loaded.segments, offsets, failures)
        self.replacement = SegmentReplacement(segments, failures)
        self.retention = LogRetention(
            settings, failures, offsets, self.replacement, border, epochs, log_start
        )
        self._appender = LogAppender(settings, failures, offsets, segments, epochs, loaded.producers)

    @classmethod
    def open(
        cls,
        location: LogLocation,
        config: LogConfig,
        checkpointed: CheckpointedState,
        *,
        now_ms: int,
        options: LogOptions,
        observer: LogObserver | None = None,
    ) -> PartitionLog:
        """Open the log in a directory, which is created if it does not exist.

        Errors: CorruptLog and UnsupportedFormat name the file; OSError, StorageFailure.
        """
        location.fs.makedirs(location.directory)
        loader = LogLoader(
            fs=location.fs,
            directory=location.directory,
            topic_partition=location.topic_partition,
            config=config,
            now_ms=now_ms,
            recovery_point=checkpointed.recovery_point,
            log_start_offset=checkpointed.log_start_offset,
            clean=checkpointed.clean,
            producer_id_expiration_ms=options.producer_id_expiration_ms,
            may_have_gaps=config.is_compacted or checkpointed.first_dirty_offset is not None,
            has_remote_part=has_remote_part(
                location.topic_partition, config, is_system_enabled=options.remote_storage_system_enable
            ),
        )
        return cls(location, config, checkpointed, loader.load(), observer or NoObserver(), options)

    # -- state

    @property
    def config(self) -> LogConfig:
        """The topic's settings."""
        return self._settings.config

    @property
    def rules(self) -> ValidationRules:
        """The rules by which batches are validated before an append."""
        return self._settings.rules

    @property
    def failure(self) -> StorageFailure | None:
        """Why the log refuses writes. Unless a change is interrupted, its directory must go offline."""
        return self.failures.failure

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all local segments."""
        return self.segments.size_bytes

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that clients may read, also from remote storage."""
        return self._offsets.log_start_offset

    @property
    def local_log_start_offset(self) -> Offset:
        """The first offset on the local disk; equal to the log start unless the log is tiered."""
        return self._offsets.local_log_start_offset

    @property
    def log_end_offset(self) -> Offset:
        """The offset of the next record."""
        return self._offsets.log_end_offset

    @property
    def high_watermark(self) -> Offset:
        """The end of what all in-sync replicas have (exclusive)."""
        return self._offsets.high_watermark

    @property
    def last_stable_offset(self) -> Offset:
        """Where the first open transaction starts, at most the high watermark (exclusive)."""
        return self._offsets.last_stable_offset

    @property
    def first_dirty_offset(self) -> Offset | None:
        """Where compaction continues; None if the log has never been compacted."""
        return self._offsets.first_dirty_offset

    @property
    def leader_epochs(self) -> LeaderEpochCache:
        """Where each leader epoch starts; callers must not change it."""
        return self.epoch_file.cache

    @property
    def remote_log_enabled(self) -> bool:
        """Whether the log is tiered now."""
        return self.remote_border.remote_log_enabled

    @property
    def highest_offset_in_remote_storage(self) -> Offset:
        """The last offset (inclusive) up to which the log is in remote storage; -1 if none is known."""
        return self.remote_border.highest_offset_in_remote_storage

    def update_config(self, config: LogConfig) -> None:
        """Use changed settings from the next operation on.

        A log that is no longer tiered starts where its local part starts: its remote part is deleted.
        """
        had_remote_part = self.remote_border.may_have_remote_part
        self._settings.update(config)
        self.remote_border.update_settings()
        if had_remote_part and not self.remote_border.may_have_remote_part:
            self.remote_border.on_remote_log_deleted()
            self.advance_log_start_offset(self.local_log_start_offset)

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Set the topic id of a log that was created before topics had ids."""
        self.topic_id = topic_id

    # -- appending

    def validate(self, records: bytearray | memoryview, now_ms: int) -> Steps[ValidatedBatch]:
        """Check a producer's batch in steps, as `append_as_leader` does at once; return what to append.

        It is for logs with `rules.may_open_batches`. `records` must not change before the last step. The log
        does not change: the append assigns the offsets, and decides whether the producer may append it.
        """
        header = read_single_batch(records)
        steps = validation(records, header, self.rules, _CLIENT, now_ms)
        return ValidatedBatch(records, header) if steps is None else (yield from steps)

    def append_as_leader(
        self,
        records: bytearray | memoryview,
        leader_epoch: LeaderEpoch,
        now_ms: int,
        *,
        origin: AppendOrigin = _CLIENT,
        transaction_version: int = 0,
        verification: Verification | None = None,
        validated: ValidatedBatch | None = None,
    ) -> AppendInfo:
        """Check one batch, assign the next offsets and the epoch (in place), and append it.

        With `AppendOrigin.RAFT` there may be several batches, whose offsets and epoch are already assigned.
        `transaction_version` is the transaction.version with which a coordinator ended a transaction, 0 if it
        is unknown. `verification` is that of a transactional batch, see
        `ProducerStateManager.check_transactional` (KIP-890). `validated` is what `validate` returned for
        `records`, which are not checked again then.
        Errors: KafkaError, see tidelog.storage.log.validation, tidelog.storage.producers.producer_entry and
        the module.
        """
        if self.failures.failure is not None:
            self.failures.refuse_after_failure()
        if origin is _RAFT:
            return self._append_assigned(records, leader_epoch, now_ms)
        if validated is None:
            header = read_single_batch(records)
            steps = validation(records, header, self._settings.rules, origin, now_ms)
            if steps is not None:
                records, header = run_steps(steps)
        else:
            records, header = validated
        size_bytes = header.batch_length + LOG_OVERHEAD
        if size_bytes != len(records):
            records = memoryview(records)[:size_bytes]
        first_offset = self._offsets.log_end_offset
        stamp(records, 0, first_offset, leader_epoch)
        if not header.attributes & ATTRIBUTE_CONTROL:
            return self._appender.append_data(records, header, leader_epoch, now_ms, origin, verification)
        header = stamped(header, first_offset, leader_epoch)
        return self._appender.append(records, [header], now_ms, origin, transaction_version)

    def append_as_follower(
        self, records: bytes | bytearray | memoryview, now_ms: int, *, leader_epoch: LeaderEpoch | None = None
    ) -> AppendInfo | None:
        """Append the complete batches of a leader's response unchanged; return None if there is none.

        Batches of an epoch above `leader_epoch` are left out, unless it is None.
        Errors: KafkaError CORRUPT_MESSAGE, OFFSET_OUT_OF_RANGE if offsets do not continue the log.
        """
        self.failures.refuse_after_failure()
        assigned = read_assigned_batches(records, self.topic_partition, self.log_end_offset, leader_epoch)
        if not assigned.batches:
            return None
        data = memoryview(records)[: assigned.size_bytes]
        return self._appender.append(data, assigned.batches, now_ms, AppendOrigin.REPLICATION)

    def _append_assigned(
        self, records: bytearray | memoryview, leader_epoch: LeaderEpoch, now_ms: int
    ) -> AppendInfo:
        assigned = read_assigned_batches(records, self.topic_partition, self.log_end_offset, None)
        if not assigned.batches or assigned.size_bytes != len(records):
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"{self.topic_partition}: the records are not complete batches"
            )
        for header in assigned.batches:
            if header.partition_leader_epoch != leader_epoch:
                raise KafkaError(
                    ErrorCode.INVALID_RECORD,
                    f"batch at offset {header.base_offset} has epoch {header.partition_leader_epoch}, "
                    f"the leader's is {leader_epoch}",
                )
        return self._appender.append(records, assigned.batches, now_ms, _RAFT)

    def roll(self, now_ms: int, next_offset: Offset | None = None) -> LogSegment:
        """Seal the active segment and start another at the log end, or at `next_offset` above it.

        An empty active segment that already starts there remains the active one.
        """
        log_end_offset = self.log_end_offset
        with self.failures.storage_errors("roll"):
            return self._log_segments.roll(max(log_end_offset, next_offset or 0), log_end_offset, now_ms)

    def maybe_roll(self, now_ms: int) -> bool:
        """Roll a segment that has been active for longer than segment.ms, regardless of its records' age."""
        if self.failure is not None:
            return False
        active = self.segments.active
        age_ms = now_ms - active.created_ms
        if active.size_bytes == 0 or age_ms <= self.config.max_segment_ms - active.roll_jitter_ms:
            return False
        self.roll(now_ms)
        return True

    def advance_high_watermark(self, offset: Offset) -> bool:
        """Raise the high watermark to `offset`, at most to the log end; return whether it changed."""
        return self._offsets.advance_high_watermark(offset)

    # -- reading

    def read(
        self,
        offset: Offset,
        max_bytes: int,
        *,
        upper_bound: Offset | None = None,
        at_least_one: bool = False,
        with_aborted_transactions: bool = False,
    ) -> ReadResult:
        """Return complete batches of one segment, from the one that contains `offset` to `upper_bound`.

        `upper_bound` is exclusive; None means the log end. The result has at most `max_bytes`, but with
        `at_least_one` the first batch is included regardless of its size.
        Errors: KafkaError OFFSET_OUT_OF_RANGE outside of log start and log end, KAFKA_STORAGE_ERROR,
        CORRUPT_MESSAGE, OFFSET_MOVED_TO_TIERED_STORAGE between log start and local log start.
        """
        offsets = self._offsets
        log_end_offset = offsets.log_end_offset
        if not offsets.local_log_start_offset <= offset <= log_end_offset:
            offsets.require_local(offset)
        if upper_bound is None or upper_bound > log_end_offset:
            upper_bound = log_end_offset
        records: FileSlice | None = None
        aborted: list[AbortedTransaction] | None = [] if with_aborted_transactions else None
        if offset < upper_bound:
            with self.failures.storage_errors("read"):
                found = log_read.find_range(self.segments, offset, max_bytes, upper_bound, at_least_one)
                if found is not None and found.end > found.start:
                    file = found.segment.file
                    records = FileSlice(file, found.start, found.end - found.start, file.hold())
                    if with_aborted_transactions:
                        aborted = log_read.aborted_transactions(self.segments, offset, found.end_offset)
        return ReadResult(
            offsets.high_watermark, offsets.log_start_offset, offsets.last_stable_offset, records, aborted
        )

    def readable_bytes(self, offset: Offset, upper_bound: Offset) -> int:
        """Return the bytes of the batches from `offset` to `upper_bound` (exclusive), over all segments."""
        if offset >= upper_bound:
            return 0
        with self.failures.storage_errors("read"):
            return log_read.readable_bytes(self.segments, offset, upper_bound)

    def aborted_transactions(self, start: Offset, upper_bound: Offset) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap [`start`, `upper_bound`)."""
        with self.failures.storage_errors("read"):
            return log_read.aborted_transactions(self.segments, start, upper_bound)

    # -- the log start and remote storage

    def advance_log_start_offset(self, offset: Offset) -> bool:
        """Raise the log start to `offset`, as DeleteRecords requests; return whether it changed.

        Errors: KafkaError OFFSET_OUT_OF_RANGE above the high watermark.
        """
        return self._log_start.advance(offset)

    def advance_log_start_offset_from_remote(self, offset: Offset) -> bool:
        """Raise the log start before records below `offset` are deleted from remote storage.

        Return whether it changed.
        Errors: KafkaError OFFSET_OUT_OF_RANGE above the high watermark; nothing may be deleted then.
        """
        return self.remote_log_enabled and self.advance_log_start_offset(offset)

    # -- compaction

    def set_first_dirty_offset(self, offset: Offset | None) -> None:
        """Record where compaction continues; None if the log is to be compacted from its start."""
        self._offsets.set_first_dirty_offset(offset)

    # -- truncation

    def truncate_to(self, offset: Offset, now_ms: int = 0, *, below_high_watermark: bool = False) -> bool:
        """Remove the batch that contains `offset` and all after it, durably; return whether there was one.

        Errors: KafkaError below the high watermark, unless `below_high_watermark` is set: readers may have
        seen those records (KAFKA-12460).
        """
        self.failures.refuse_after_failure()
        self.replacement.settle()
        with self.failures.storage_errors("truncation", is_final=True):
            return self._truncation().truncate_to(
                self.topic_partition, offset, now_ms, below_high_watermark=below_high_watermark
            )

    def truncate_fully_and_start_at(self, offset: Offset, now_ms: int = 0) -> None:
        """Remove all records and continue at `offset`, as a follower does whose leader starts there."""
        self.failures.refuse_after_failure()
        self.replacement.settle()
        with self.failures.storage_errors("truncation", is_final=True):
            self._truncation().truncate_fully_and_start_at(offset, now_ms)

    def restart_from_remote(self, state: RemoteState, now_ms: int) -> None:
        """Remove all local records and continue after the records in remote storage.

        Errors: CorruptSnapshot as KafkaError CORRUPT_MESSAGE, INVALID_CONFIG if the log is not tiered; then
        nothing has changed.
        """
        self.failures.refuse_after_failure()
        if not self.remote_log_enabled:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{self.topic_partition} has no remote storage here")
        self.replacement.settle()
        with self.failures.storage_errors("restart from remote storage", is_final=True):
            self._truncation().restart_from_remote(state, now_ms)

    def _truncation(self) -> LogTruncation:
        return LogTruncation(
            self.failures,
            self._offsets,
            self._log_segments,
            self.durability,
            self.remote_border,
            self.epoch_file,
            self.producers,
        )

    # -- durability

    def flush(self, now_ms: int) -> None:
        """Make all records durable now, in this thread."""
        plan = self.durability.flush_plan()
        with self.failures.storage_errors("flush", is_final=True):
            plan.run()
        self.durability.flushed(plan, now_ms)

    def close(self, *, clean: bool, now_ms: int = 0) -> None:
        """Close the files. With `clean` all records become durable first, and opening needs no recovery."""
        with suppress(KafkaError):
            self.failures.resume_interrupted()
            self.replacement.settle()
        if clean and self.failure is None:
            with self.failures.storage_errors("close", is_final=True):
                self.segments.active.complete_indexes()
                self._log_segments.take_producer_snapshot(self.log_end_offset)
            self.flush(now_ms)
        self.segments.close()

    # -- another directory

    def relocate(
        self, directory: str, observer: LogObserver, active_file: File, index_files: Sequence[OnDemandFile]
    ) -> None:
        """Use the copy of all files in `directory` from now on; see `tidelog.storage.directories.future_log`.

        The copy has the same segments with the same bytes. What is below the recovery point is durable there,
        and so are sealed segments, producer snapshots and the current leader epochs. `active_file` is the
        open log file of the active segment, `index_files` are its empty indexes. No flush may be running.
        """
        self.directory = directory
        self._observer.replace(observer)
        self.failures.relocate(directory)
        self.durability.relocate(directory)
        self._log_segments.relocate(directory, active_file, index_files)
        self.epoch_file.relocate(LeaderEpochCheckpoint(self.fs, f"{directory}/{LEADER_EPOCH_CHECKPOINT}"))

    # -- retirement

    def retire(self) -> None:
        """Stop opening files, as the directory is renamed or offline; readers keep open files."""
        self.replacement.forget()
        self.segments.retire()
        self.epoch_file.retire()
