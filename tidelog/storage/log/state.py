"""What a partition log is made of, and the rules between its offsets.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
    log_start_offset <= local_log_start_offset <= high_watermark; equal unless the log is tiered
    highest_offset_in_remote_storage < log_end_offset
    recovery_point <= log_end_offset; what is below it is durable

Errors: `storage_error` turns what the disk throws into the KafkaError for the reply.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from uuid import UUID

from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.deleted_files import DeletedFiles
from tidelog.storage.disk.errors import CorruptFile, InterruptedChange, StorageFailure, is_descriptor_shortage
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.leader_epoch import LeaderEpochCache
from tidelog.storage.log.observer import LogObserver
from tidelog.storage.log.tiered_retention import is_tiered
from tidelog.storage.log.validation_rules import ValidationRules
from tidelog.storage.recovery.log_loader import LoadedLog


class LogState:
    """Segments, offsets, epochs and producers of one log; `storage.log` adds what is done with them."""

    def __init__(
        self,
        fs: FileSystem,
        directory: str,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        loaded: LoadedLog,
        now_ms: int,
        observer: LogObserver,
        *,
        remote_storage_system_enable: bool = True,
    ) -> None:
        self.fs = fs
        self.directory = directory
        self.topic_partition = topic_partition
        self.topic_id = topic_id
        self.config = config
        self.segments = loaded.segments
        self.log_start_offset: Offset = loaded.log_start_offset
        self.log_end_offset: Offset = loaded.log_end_offset
        self.recovery_point: Offset = loaded.recovery_point
        self.local_log_start_offset: Offset = loaded.local_log_start_offset
        """The first offset on local disk; what is below it can be in remote storage only."""
        self.high_watermark: Offset = loaded.local_log_start_offset
        self.first_dirty_offset: Offset | None = None
        """Where compaction goes on; None before it has come by."""
        self.has_start_in_local_part = False
        """Whether the log start has risen into the local part, and is not known to be durable."""
        self.remote_storage_system_enable = remote_storage_system_enable
        self.remote_log_enabled = is_tiered(
            topic_partition, config, is_system_enabled=remote_storage_system_enable
        )
        self.highest_offset_in_remote_storage: Offset = -1
        """The last offset (inclusive) up to which the log is in remote storage; -1 when none is known."""
        self.is_remote_log_known = False
        """Whether that has been told since this replica came to its present role (KAFKA-20732)."""
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self.generation = 0
        """Counts truncations; see FlushPlan."""
        self.failure: StorageFailure | None = None
        """Why the log refuses writes; its log directory must be taken offline, unless it is interrupted."""
        self._unfinished: deque[Callable[[], object]] = deque()
        self.observer = observer
        self.deleted_files = DeletedFiles()
        self.unsynced_paths: list[str] = []
        """Small files that were written without a sync; the next flush takes them along."""
        self._epoch_checkpoint = loaded.leader_epoch_checkpoint
        self.written_epoch: LeaderEpoch | None = self.leader_epochs.latest_epoch
        """The latest leader epoch, None while that is not durable."""
        self.rules = ValidationRules.of(config)
        self.last_flush_ms = now_ms
        self.is_new_directory = True
        self._first_unstable_offset: Offset | None = None
        self.update_first_unstable_offset()

    @property
    def size_bytes(self) -> int:
        """Bytes of batches in all segments."""
        return self.segments.size_bytes

    @property
    def last_stable_offset(self) -> Offset:
        """Where the first open transaction starts, at most the high watermark (exclusive)."""
        unstable = self._first_unstable_offset
        if unstable is not None and unstable < self.high_watermark:
            return unstable
        return self.high_watermark

    def advance_high_watermark(self, offset: Offset) -> bool:
        """Raise the high watermark to `offset`, at most the log end; True when it moved. It never falls."""
        offset = min(offset, self.log_end_offset)
        if offset <= self.high_watermark:
            return False
        self.high_watermark = offset
        if self._first_unstable_offset is not None:
            self.update_first_unstable_offset()
        return True

    def update_first_unstable_offset(self) -> None:
        """Ask the producers again which offset is not decided; after any of the offsets or they changed."""
        unstable = self.producers.first_unstable_offset(self.high_watermark)
        self._first_unstable_offset = None if unstable is None else max(unstable, self.log_start_offset)

    def assign_leader_epoch(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note, durably, that `epoch` starts at `start_offset`; every append does so before its records.

        A negative epoch is none. When the checkpoint cannot be written nothing has changed.
        """
        if epoch < 0:
            return
        before = self.leader_epochs.entries
        if self.leader_epochs.assign(epoch, start_offset) or self.written_epoch is None:
            try:
                self.write_leader_epochs()
            except (OSError, StorageFailure):
                self.leader_epochs = LeaderEpochCache.of(before)
                raise

    def note_leader_epoch(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Note that `epoch` starts at `start_offset`, for answers; durable with its first record.

        A leader does so when it is elected. Until there is a record of the epoch, nothing is lost if the
        note is: who leads next notes an epoch of its own, which is greater. So the election of many
        leaders at once does not wait for the disk.
        """
        if epoch >= 0 and self.leader_epochs.assign(epoch, start_offset):
            self.written_epoch = None

    def write_leader_epochs(self) -> None:
        """Make the leader epochs durable; if that fails the next append tries again."""
        self.written_epoch = None
        self._epoch_checkpoint.write(self.leader_epochs.entries)
        self.written_epoch = self.leader_epochs.latest_epoch

    def update_config(self, config: LogConfig) -> None:
        """Follow changed settings from the next append on."""
        self.config = config
        self.rules = ValidationRules.of(config)

    @contextmanager
    def storage_errors(self, operation: str, *, is_final: bool = False) -> Iterator[None]:
        """Turn what the disk throws into a KafkaError that names the file; see `storage_error`."""
        try:
            yield
        except (OSError, StorageFailure, CorruptFile, DecodeError) as error:
            raise self.storage_error(operation, error, is_final=is_final) from error

    def storage_error(self, operation: str, error: Exception, *, is_final: bool = False) -> KafkaError:
        """Return the error for the reply.

        `is_final`: after a failure of this operation it is not known what the disk holds, so that the log
        takes no more writes. A StorageFailure is always final, a shortage of descriptors never.
        """
        if isinstance(error, CorruptFile | DecodeError):
            return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{operation} of {self.directory}: {error}")
        if is_final and isinstance(error, OSError) and not is_descriptor_shortage(error):
            error = StorageFailure(self.directory, operation, str(error))
        if isinstance(error, StorageFailure):
            self.failure = self.failure or error
            return error
        text = f"{operation} of {self.directory} failed: {error}"
        self.observer.operation_refused(text, is_shortage=is_descriptor_shortage(error))
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, text)

    def refuse_after_failure(self) -> None:
        """Raise StorageFailure when an earlier failure left the log's files in doubt.

        A change that was interrupted is completed, where that is possible by now. The caller is refused all
        the same: what it was about to do may have been meant for the log as it was before.
        """
        if isinstance(self.failure, InterruptedChange):
            interrupted = self.failure
            self.resume_interrupted()
            raise interrupted
        if self.failure is not None:
            raise StorageFailure(self.directory, "append", f"the log failed before: {self.failure}")

    # -- changes of several steps

    def perform(self, operation: str, steps: Iterable[Callable[[], object]]) -> None:
        """Do all `steps`, which lead from one valid state of the log to another.

        Where a step finds no descriptor, the log refuses everything until `resume_interrupted` has done the
        rest. A step that raised may be called again.
        Errors: KafkaError KAFKA_STORAGE_ERROR, which is final for whatever else the disk raises.
        """
        assert not self._unfinished, f"{self.directory}: {operation}, but another change is not complete"
        self._unfinished.extend(steps)
        self._continue(operation)

    def resume_interrupted(self) -> None:
        """Complete a change that was interrupted, if that is possible by now. Errors: those of `perform`."""
        if isinstance(self.failure, InterruptedChange):
            self._continue(self.failure.operation)

    def _continue(self, operation: str) -> None:
        self.failure = None
        try:
            with self.storage_errors(operation, is_final=True):
                while self._unfinished:
                    self._unfinished[0]()
                    self._unfinished.popleft()
        except KafkaError as error:
            if not is_descriptor_shortage(error):
                self._unfinished.clear()
                raise
            self.failure = InterruptedChange(self.directory, operation, str(error))
            raise self.failure from error
