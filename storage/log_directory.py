"""One log directory: the partitions in it, their checkpoints, and whether its disk can still be used.

Checkpoints are written when something changed, each atomically. A partition whose files are damaged
keeps its lines in them, so that nothing is lost when the files come back.

I/O: through `storage.files`. Errors: StorageFailure and OSError mean that the directory has to go
offline, which is for the LogManager to do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import partial
from threading import Lock
from typing import NamedTuple
from uuid import UUID

from protocol.errors import DecodeError, ErrorCode, KafkaError
from protocol.ids import Offset, TopicPartition
from storage.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownMarker,
    OffsetCheckpoint,
    PartitionMetadataFile,
)
from storage.config import LogConfig
from storage.deleted_files import DeletedFiles, remove_path
from storage.errors import CorruptCheckpoint, CorruptFile, StorageFailure
from storage.files import FileSystem, parent_directory
from storage.log import PartitionLog
from storage.partition_directory import (
    NAME_BYTES_MAX,
    DirectoryKind,
    PartitionDirectory,
    directory_name,
    parse_directory_name,
    renamed_directory_name,
)
from storage.segment import LogSegment
from storage.tiered_retention import refuse_loss_of_tiering

NOT_PARTITIONS = frozenset({"remote-log-index-cache", "remote-log-metadata"})
"""What tiered storage keeps beside the partitions."""

_log = logging.getLogger(__name__)

METADATA_TOPIC = "__cluster_metadata"


class CheckpointKind(Enum):
    """The offset checkpoints of a log directory."""

    RECOVERY_POINT = "recovery point"
    HIGH_WATERMARK = "high watermark"
    LOG_START_OFFSET = "log start offset"


class DirectorySettings(NamedTuple):
    """What every log in a directory is opened with."""

    config_of: Callable[[str], LogConfig]
    """A topic's settings."""
    producer_id_expiration_ms: int
    new_id: Callable[[], UUID]
    remote_storage_system_enable: bool = True
    """Whether this node has remote storage, so that topics may use it."""


class Rename(NamedTuple):
    """A partition's directory gets another name, and is removed when it is due; None: never."""

    topic_partition: TopicPartition
    path: str
    due_ms: int | None


class Retirement(NamedTuple):
    """Partitions that are out of use: `run` blocks, and may run in any thread; then `LogDirectory.retired`.

    Errors of `run`: OSError, StorageFailure; the directory has to go offline.
    """

    directory: LogDirectory
    renames: Sequence[Rename]
    run: Callable[[], None]


class LogDirectory:
    """A directory of `log.dirs`.

    Invariant: `logs`, `being_made` and `damaged` are disjoint. `damaged` says why a partition that is on
    disk cannot be used.
    """

    def __init__(self, fs: FileSystem, path: str, settings: DirectorySettings) -> None:
        self.fs = fs
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.being_made: set[TopicPartition] = set()
        self.damaged: dict[TopicPartition, str] = {}
        self.lost: frozenset[TopicPartition] = frozenset()
        """What was here when the directory went offline."""
        self.offline_reason: str | None = None
        self.found_out_of_use: list[tuple[TopicPartition, UUID]] = []
        """Deleted and stray partitions that were still on the disk at the start, by their topic ids."""
        self._is_loaded = False
        self._settings = settings
        self._deleted = DeletedFiles()
        self._marker = CleanShutdownMarker(fs, path)
        self._recovery_points = _Checkpoint(fs, f"{path}/{RECOVERY_POINT_CHECKPOINT}")
        self._high_watermarks = _Checkpoint(fs, f"{path}/{HIGH_WATERMARK_CHECKPOINT}")
        self._log_start_offsets = _Checkpoint(fs, f"{path}/{LOG_START_OFFSET_CHECKPOINT}")

    # -- opening

    def load(self, now_ms: int) -> None:
        """Open every partition in the directory; damaged ones are logged by file name and set aside.

        Errors: ConfigError for a tiered one on a node without remote storage.
        """
        if not self.fs.exists(self.path):
            self.fs.makedirs(self.path)
            self.fs.fsync_dir(parent_directory(self.path))
        clean = self._marker.exists()
        for checkpoint in (self._recovery_points, self._high_watermarks, self._log_start_offsets):
            checkpoint.read()
        self._marker.delete()
        for name in self.fs.listdir(self.path):
            path = f"{self.path}/{name}"
            if not self.fs.is_dir(path):
                continue
            parsed = parse_directory_name(name)
            if name in NOT_PARTITIONS:
                continue
            if parsed is None:
                _log.warning("%s is ignored: it is not named like a partition", path)
                continue
            self._note_out_of_use(parsed, path)
            if parsed.kind is DirectoryKind.DELETED:
                self._deleted.add([path], now_ms)
            elif parsed.kind is not DirectoryKind.IN_USE:
                _log.warning("%s is left alone: it is out of use", path)
            elif parsed.topic_partition.topic != METADATA_TOPIC:
                self._load_partition(parsed.topic_partition, now_ms, clean)
        self._is_loaded = True

    def _note_out_of_use(self, parsed: PartitionDirectory, path: str) -> None:
        is_cut = len(path) - len(self.path) > NAME_BYTES_MAX
        if parsed.kind not in (DirectoryKind.DELETED, DirectoryKind.STRAY) or is_cut:
            return
        try:
            topic_id = PartitionMetadataFile(self.fs, path).read()
        except (OSError, CorruptFile, DecodeError):
            return  # half removed, or made before it had an id
        self.found_out_of_use.append((parsed.topic_partition, topic_id))

    def _load_partition(self, topic_partition: TopicPartition, now_ms: int, clean: bool) -> None:
        config = self._settings.config_of(topic_partition.topic)
        refuse_loss_of_tiering(
            topic_partition, config, is_system_enabled=self._settings.remote_storage_system_enable
        )
        try:
            topic_id = self._read_topic_id(topic_partition)
            log = self._open(topic_partition, topic_id, config, now_ms, clean)
        except (CorruptFile, DecodeError) as damage:
            _log.error("partition %s in %s cannot be used: %s", topic_partition, self.path, damage)
            self.damaged[topic_partition] = str(damage)
            return
        log.advance_high_watermark(self._high_watermarks.written.get(topic_partition, 0))
        self.logs[topic_partition] = log

    def _read_topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        metadata = PartitionMetadataFile(self.fs, self._path_of(topic_partition))
        try:
            return metadata.read() if metadata.exists() else None
        except CorruptCheckpoint as damage:
            if self._recovery_points.written.get(topic_partition, 0) > 0:
                raise
            _log.warning("%s; removed, as the partition had never been flushed", damage)
            self.fs.unlink(metadata.path)
            return None

    def _open(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        now_ms: int,
        clean: bool,
    ) -> PartitionLog:
        return PartitionLog.open(
            self.fs,
            self._path_of(topic_partition),
            topic_partition,
            topic_id,
            config,
            now_ms=now_ms,
            recovery_point=self._recovery_points.written.get(topic_partition, 0),
            log_start_offset=self._log_start_offsets.written.get(topic_partition, 0),
            clean=clean,
            observer=self,
            producer_id_expiration_ms=self._settings.producer_id_expiration_ms,
            remote_storage_system_enable=self._settings.remote_storage_system_enable,
        )

    def planned_creation(
        self, topic_partition: TopicPartition, topic_id: UUID | None, config: LogConfig, now_ms: int
    ) -> Callable[[], PartitionLog]:
        """The making of a partition that has not been here yet, to be done in any thread; then `made`.

        Its topic id is durable with the first flush.
        """
        self._forget_offsets([topic_partition])
        self.being_made.add(topic_partition)
        return partial(self._make, topic_partition, topic_id, config, now_ms)

    def _make(
        self, topic_partition: TopicPartition, topic_id: UUID | None, config: LogConfig, now_ms: int
    ) -> PartitionLog:
        log = self._open(topic_partition, topic_id, config, now_ms, clean=False)
        if topic_id is not None:
            metadata = PartitionMetadataFile(self.fs, log.directory)
            metadata.create(topic_id)
            log.unsynced_paths.append(metadata.path)
        return log

    def made(self, log: PartitionLog) -> None:
        """What was planned is done: the partition is in use from now on."""
        self.being_made.discard(log.topic_partition)
        self.logs[log.topic_partition] = log

    def assign_topic_id(self, log: PartitionLog, topic_id: UUID) -> None:
        """Record the topic id of a partition that was made before it had one."""
        PartitionMetadataFile(self.fs, log.directory).write(topic_id)
        log.topic_id = topic_id

    # -- taking partitions away

    def retire(self, topic_partitions: Sequence[TopicPartition], kind: DirectoryKind, now_ms: int) -> None:
        """See `planned_retirement`; done at once."""
        retirement = self.planned_retirement(topic_partitions, kind, now_ms)
        retirement.run()
        self.retired(retirement)

    def planned_retirement(
        self, topic_partitions: Iterable[TopicPartition], kind: DirectoryKind, now_ms: int
    ) -> Retirement:
        """Use partitions no more from now on; their directories are renamed in any thread, then `retired`.

        Answers that are still being sent keep their open files, so nothing is closed here.
        """
        renames: list[Rename] = []
        for topic_partition in topic_partitions:
            log = self.logs.pop(topic_partition, None)
            self.damaged.pop(topic_partition, None)
            config = self._settings.config_of(topic_partition.topic) if log is None else log.config
            name = renamed_directory_name(topic_partition, kind, self._settings.new_id())
            due_ms = now_ms + config.file_delete_delay_ms if kind is DirectoryKind.DELETED else None
            renames.append(Rename(topic_partition, f"{self.path}/{name}", due_ms))
        keys = [each.topic_partition for each in renames]
        forgetting = [
            write
            for checkpoint in self._checkpoints
            if (write := checkpoint.planned_forget(keys)) is not None
        ]
        return Retirement(self, renames, partial(self._retire, renames, forgetting))

    def _retire(self, renames: Sequence[Rename], forgetting: Sequence[Callable[[], None]]) -> None:
        """I/O: one rename for each; the syncs and the checkpoints are for all of them together."""
        for topic_partition, path, _ in renames:
            self.fs.rename(self._path_of(topic_partition), path)
        self.fs.fsync_dir(self.path)
        for write in forgetting:
            write()

    def retired(self, retirement: Retirement) -> None:
        """What was planned is done; deleted directories are removed after file.delete.delay.ms."""
        for _, path, due_ms in retirement.renames:
            if due_ms is not None:
                self._deleted.add([path], due_ms)

    def apply_retention(self, now_ms: int) -> int:
        """Delete expired segments of every log here; how many. A log that cannot be looked at is reported.

        I/O: one checkpoint of all new log starts, before the first file is renamed (KAFKA-15352).
        """
        expired: list[tuple[PartitionLog, list[LogSegment]]] = []
        for log in self.logs.values():
            try:
                found = log.expire_segments(now_ms)
            except KafkaError as error:
                _log.error("retention of %s: %s", log.topic_partition, error)
                continue
            if found:
                expired.append((log, found))
        if expired:
            self.checkpoint_log_start_offsets()
        for log, segments in expired:
            try:
                log.remove_expired(segments, now_ms)
            except KafkaError as error:
                _log.error("retention of %s: %s", log.topic_partition, error)
        return sum(len(segments) for _, segments in expired)

    def delete_expired(self, now_ms: int) -> int:
        """Remove what was deleted long enough ago: partition directories, and segments' files."""
        return self.remove(self.take_expired(now_ms))

    def take_expired(self, now_ms: int) -> list[str]:
        """The paths of what was deleted long enough ago, for `remove`; they are not named again."""
        paths = self._deleted.take_due(now_ms)
        for log in self.logs.values():
            paths += log.deleted_files.take_due(now_ms)
        return paths

    def remove(self, paths: Iterable[str]) -> int:
        """Remove files and directories that are out of use; how many were there.

        I/O: long for large files. Touches nothing of this object: may run in any thread.
        """
        return sum(remove_path(self.fs, path) for path in paths)

    # -- checkpoints

    def checkpoint_recovery_points(self) -> None:
        """Write how far each log is durable, if that changed."""
        self._recovery_points.write(self._with_damaged(self._recovery_points, self._recovery_point))

    def checkpoint_high_watermarks(self) -> None:
        """Write how far each log is replicated, if that changed."""
        self._high_watermarks.write(self._with_damaged(self._high_watermarks, self._high_watermark))

    def checkpoint_log_start_offsets(self) -> None:
        """Write where logs start that are tiered or start above their first segment, if that changed."""
        self._log_start_offsets.write(self._with_damaged(self._log_start_offsets, self._log_start_offset))

    def planned_checkpoint(self, kind: CheckpointKind) -> Callable[[], None] | None:
        """The writing of one checkpoint, to be done in any thread; None when nothing changed."""
        checkpoint, offset_of = {
            CheckpointKind.RECOVERY_POINT: (self._recovery_points, self._recovery_point),
            CheckpointKind.HIGH_WATERMARK: (self._high_watermarks, self._high_watermark),
            CheckpointKind.LOG_START_OFFSET: (self._log_start_offsets, self._log_start_offset),
        }[kind]
        return checkpoint.planned(self._with_damaged(checkpoint, offset_of))

    def log_start_offset_changed(self, log: PartitionLog) -> None:
        """See LogObserver."""
        offsets = self._with_damaged(self._log_start_offsets, self._log_start_offset)
        offsets[log.topic_partition] = log.log_start_offset
        self._log_start_offsets.write(offsets)

    def recovery_point_lowered(self, log: PartitionLog) -> None:
        """See LogObserver."""
        self.checkpoint_recovery_points()

    @staticmethod
    def _recovery_point(log: PartitionLog) -> Offset | None:
        return log.recovery_point

    @staticmethod
    def _high_watermark(log: PartitionLog) -> Offset | None:
        return log.high_watermark

    @staticmethod
    def _log_start_offset(log: PartitionLog) -> Offset | None:
        is_kept = log.remote_log_enabled or log.log_start_offset > log.segments.first.base_offset
        return log.log_start_offset if is_kept else None

    def _with_damaged(
        self, checkpoint: _Checkpoint, offset_of: Callable[[PartitionLog], Offset | None]
    ) -> dict[TopicPartition, Offset]:
        kept = checkpoint.written
        offsets = {key: kept[key] for key in self.damaged if key in kept}
        for topic_partition, log in self.logs.items():
            offset = offset_of(log)
            if offset is not None:
                offsets[topic_partition] = offset
        return offsets

    def _forget_offsets(self, topic_partitions: Iterable[TopicPartition]) -> None:
        for checkpoint in self._checkpoints:
            write = checkpoint.planned_forget(topic_partitions)
            if write is not None:
                write()

    @property
    def _checkpoints(self) -> tuple[_Checkpoint, ...]:
        return self._recovery_points, self._high_watermarks, self._log_start_offsets

    # -- closing

    def close(self, broker_epoch: int, now_ms: int) -> None:
        """Make everything durable, write the checkpoints, and leave the marker of a clean shutdown.

        Without it, as while a partition is damaged, logs are verified from their recovery points on. A
        start that ended half-way leaves no marker either, and the checkpoints as they were.
        """
        # A damaged one has not been recovered: once it is mended its tail must still be looked at.
        clean = not self.damaged
        for log in self.logs.values():
            log.close(clean=True, now_ms=now_ms)
            clean = clean and log.failure is None
        if not self._is_loaded:
            # The checkpoints hold what is known of logs that were not come to, and their state nobody knows.
            return
        self.checkpoint_recovery_points()
        self.checkpoint_high_watermarks()
        self.checkpoint_log_start_offsets()
        if clean:
            self._marker.write(broker_epoch)

    def take_offline(self, reason: str) -> None:
        """Stop using the directory: its disk has failed. Its logs refuse every further write."""
        self.offline_reason = reason
        self.lost = frozenset((*self.logs, *self.damaged, *self.being_made))
        for log in self.logs.values():
            log.failure = log.failure or StorageFailure(self.path, "use", reason)
        self.logs.clear()

    def require_usable(self, topic_partition: TopicPartition) -> None:
        """Raise KAFKA_STORAGE_ERROR for a partition whose files here are damaged."""
        damage = self.damaged.get(topic_partition)
        if damage is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition} cannot be used: {damage}")

    def _path_of(self, topic_partition: TopicPartition) -> str:
        return f"{self.path}/{directory_name(topic_partition)}"


class _Checkpoint:
    """An offset checkpoint that is written only when it would change.

    Invariant: a state never replaces a later one in the file, also when a thread writes it late.
    """

    def __init__(self, fs: FileSystem, path: str) -> None:
        self._file = OffsetCheckpoint(fs, path)
        self._lock = Lock()
        self._states = 0
        self._state_in_file = 0
        self.written: dict[TopicPartition, Offset] = {}
        """The latest state; it is in the file, or a thread is about to put it there."""

    def read(self) -> None:
        """Read the file; a damaged one is reported and counts as empty, as Kafka does."""
        try:
            self.written = self._file.read()
        except CorruptCheckpoint as damage:
            _log.error("%s; its offsets start from 0", damage)
            self.written = {}

    def write(self, offsets: dict[TopicPartition, Offset]) -> None:
        """Replace the file when `offsets` are not what it holds; waits for a thread that is writing it."""
        if offsets != self.written or self._state_in_file < self._states:
            self._states += 1
            self._put(self._states, offsets)
            self.written = offsets

    def planned(self, offsets: dict[TopicPartition, Offset]) -> Callable[[], None] | None:
        """The writing, to be done in any thread; None when there is nothing new. Keep `offsets` unchanged."""
        if offsets == self.written:
            return None
        self._states += 1
        self.written = offsets
        return partial(self._put, self._states, offsets)

    def planned_forget(self, topic_partitions: Iterable[TopicPartition]) -> Callable[[], None] | None:
        """Taking lines out, to be done in any thread; None when there are none of them."""
        stale = {each for each in topic_partitions if each in self.written}
        return self.planned({key: value for key, value in self.written.items() if key not in stale})

    def _put(self, state: int, offsets: dict[TopicPartition, Offset]) -> None:
        with self._lock:
            if state > self._state_in_file:
                self._file.write(offsets)
                self._state_in_file = state
