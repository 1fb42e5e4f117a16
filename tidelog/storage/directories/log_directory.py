"""One log directory: the partitions in it, and whether its disk can still be used.

I/O: through `tidelog.storage.disk.files`. Errors: StorageFailure and OSError mean that the LogManager must
take the directory offline.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from tidelog.base.fault_log import FaultLog
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.directories.directory_checkpoints import CheckpointKind, DirectoryCheckpoints
from tidelog.storage.directories.directory_contents import read_contents
from tidelog.storage.directories.directory_moves import DirectoryMoves
from tidelog.storage.directories.partition_directory import (
    DirectoryKind,
    directory_name,
    renamed_directory_name,
)
from tidelog.storage.disk.checkpoints import CleanShutdownMarker, PartitionMetadataFile
from tidelog.storage.disk.deleted_files import DeletedFiles
from tidelog.storage.disk.errors import CorruptCheckpoint, CorruptFile, StorageFailure
from tidelog.storage.disk.files import FileSystem, parent_directory
from tidelog.storage.log.opening import CheckpointedState, LogLocation, LogOptions
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.tiered_retention import refuse_loss_of_tiering

_log = logging.getLogger(__name__)


class DirectorySettings(NamedTuple):
    """The settings with which every log in a directory is opened."""

    config_of: Callable[[str], LogConfig]
    """Returns a topic's settings."""
    producer_id_expiration_ms: int
    new_id: Callable[[], UUID]
    remote_storage_system_enable: bool = True
    """Whether this node has remote storage, so that topics may use it."""


class Rename(NamedTuple):
    """A new name for a partition's directory, and when it is removed in ms; None: never."""

    topic_partition: TopicPartition
    path: str
    due_ms: int | None


class Retirement(NamedTuple):
    """Partitions that are no longer used: `run` blocks, in any thread; then call `LogDirectory.on_retired`.

    Errors of `run`: OSError, StorageFailure; the directory must go offline.
    """

    directory: LogDirectory
    renames: Sequence[Rename]
    run: Callable[[], None]


class LogDirectory:
    """A directory of `log.dirs`.

    Invariant: `logs`, `in_creation` and `damaged` are disjoint. `damaged` has the reason why a partition on
    disk cannot be used.
    """

    def __init__(self, fs: FileSystem, path: str, settings: DirectorySettings) -> None:
        self.fs = fs
        self.path = path
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.in_creation: set[TopicPartition] = set()
        self.damaged: dict[TopicPartition, str] = {}
        self.lost_partitions: frozenset[TopicPartition] = frozenset()
        """The partitions that were here when the directory went offline."""
        self.offline_reason: str | None = None
        self.faults = FaultLog(_log, f"log directory {path}")
        """Operations that were refused while the directory stayed online."""
        self.unused_partitions: list[tuple[TopicPartition, UUID]] = []
        """Deleted and stray partitions that were still on the disk at the start, with their topic ids."""
        self._is_loaded = False
        self._settings = settings
        self._deleted = DeletedFiles()
        self._marker = CleanShutdownMarker(fs, path)
        self.moves = DirectoryMoves()
        self.checkpoints = DirectoryCheckpoints(fs, path, self.logs, self.damaged, self.moves)

    # -- opening

    def load(self, now_ms: int) -> None:
        """Open every partition in the directory; damaged ones are logged with the file name and not used.

        Errors: ConfigError for a tiered partition on a node without remote storage.
        """
        if not self.fs.exists(self.path):
            self.fs.makedirs(self.path)
            self.fs.fsync_dir(parent_directory(self.path))
        clean = self._marker.exists()
        self.checkpoints.read()
        self._marker.delete()
        contents = read_contents(self.fs, self.path)
        self.unused_partitions += contents.unused
        self._deleted.add(contents.deleted_paths, now_ms)
        self.moves.interrupted.update(contents.interrupted_copies)
        for topic_partition in contents.in_use:
            self._load_partition(topic_partition, now_ms, clean)
        self._is_loaded = True

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
            self.mark_damaged(topic_partition, str(damage))
            return
        except (OSError, KafkaError):
            raise  # The disk has failed, which concerns the whole directory.
        except Exception as bug:
            # A bug, which concerns only this partition: the others can be used.
            _log.exception("partition %s in %s cannot be opened", topic_partition, self.path)
            self.mark_damaged(topic_partition, f"it cannot be opened: {bug}")
            return
        if topic_id is not None and not clean:
            # The process may have crashed before the first flush made it durable.
            log.durability.add_unsynced_path(PartitionMetadataFile(self.fs, log.directory).path)
        log.advance_high_watermark(self.checkpoints.offset(CheckpointKind.HIGH_WATERMARK, topic_partition))
        self.logs[topic_partition] = log

    def mark_damaged(self, topic_partition: TopicPartition, reason: str) -> None:
        """Do not use a partition on the disk, for `reason`."""
        self.logs.pop(topic_partition, None)
        self.damaged[topic_partition] = reason

    def _read_topic_id(self, topic_partition: TopicPartition) -> UUID | None:
        metadata = PartitionMetadataFile(self.fs, self._path_of(topic_partition))
        try:
            return metadata.read() if metadata.exists() else None
        except CorruptCheckpoint as damage:
            if self.checkpoints.offset(CheckpointKind.RECOVERY_POINT, topic_partition) > 0:
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
            LogLocation(self.fs, self._path_of(topic_partition), topic_partition, topic_id),
            config,
            CheckpointedState(
                clean=clean,
                recovery_point=self.checkpoints.offset(CheckpointKind.RECOVERY_POINT, topic_partition),
                log_start_offset=self.checkpoints.offset(CheckpointKind.LOG_START_OFFSET, topic_partition),
                first_dirty_offset=self.checkpoints.first_dirty_offset(topic_partition),
            ),
            now_ms=now_ms,
            observer=self,
            options=LogOptions(
                producer_id_expiration_ms=self._settings.producer_id_expiration_ms,
                remote_storage_system_enable=self._settings.remote_storage_system_enable,
            ),
        )

    def planned_creation(
        self, topic_partition: TopicPartition, topic_id: UUID | None, config: LogConfig, now_ms: int
    ) -> Callable[[], PartitionLog]:
        """Return the creation of a partition, for any thread; call `on_created` with the result.

        Its topic id is durable with the first flush. If no descriptor was available, it may run again.
        """
        forgetting = self.checkpoints.planned_forget([topic_partition])
        self.in_creation.add(topic_partition)
        return partial(self._create, topic_partition, topic_id, config, now_ms, forgetting)

    def _create(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        now_ms: int,
        forgetting: Sequence[Callable[[], None]],
    ) -> PartitionLog:
        for forget in forgetting:
            forget()
        log = self._open(topic_partition, topic_id, config, now_ms, clean=False)
        if topic_id is not None:
            metadata = PartitionMetadataFile(self.fs, log.directory)
            metadata.create(topic_id)
            log.durability.add_unsynced_path(metadata.path)
        return log

    def on_created(self, topic_partition: TopicPartition, log: PartitionLog | None) -> None:
        """Use the log of a creation that has run; None if it failed, or if the log must not be used."""
        self.in_creation.discard(topic_partition)
        if log is None:
            return
        log.producers.set_expiration(self._settings.producer_id_expiration_ms)
        self.logs[log.topic_partition] = log

    def use_producer_id_expiration(self, expiration_ms: int) -> None:
        """Remove idle producers of all current and future logs after this time."""
        self._settings = self._settings._replace(producer_id_expiration_ms=expiration_ms)
        for log in self.logs.values():
            log.producers.set_expiration(expiration_ms)

    def assign_topic_id(self, log: PartitionLog, topic_id: UUID) -> None:
        """Write the topic id of a partition that was created before topics had ids."""
        PartitionMetadataFile(self.fs, log.directory).write(topic_id)
        log.assign_topic_id(topic_id)

    # -- taking partitions away

    def strays(self, expected: Mapping[TopicPartition, UUID]) -> list[TopicPartition]:
        """Return the partitions that are not expected, or not with this topic id, and list them as unused."""
        found = [
            (key, log.topic_id)
            for key, log in self.logs.items()
            if key not in expected or log.topic_id not in (None, expected[key])
        ]
        for topic_partition, topic_id in found:
            _log.warning(
                "partition %s in %s is a stray: the metadata does not assign it to this directory",
                topic_partition,
                self.path,
            )
            if topic_id is not None:
                self.unused_partitions.append((topic_partition, topic_id))
        return [topic_partition for topic_partition, _ in found]

    def retire(self, topic_partitions: Sequence[TopicPartition], kind: DirectoryKind, now_ms: int) -> None:
        """Stop using partitions and rename their directories now; see `planned_retirement`."""
        retirement = self.planned_retirement(topic_partitions, kind, now_ms)
        retirement.run()
        self.on_retired(retirement)

    def planned_retirement(
        self, topic_partitions: Iterable[TopicPartition], kind: DirectoryKind, now_ms: int
    ) -> Retirement:
        """Stop using partitions; any thread renames their directories, then `on_retired` is called.

        Responses that are being sent keep their open files, so nothing is closed here.
        """
        renames: list[Rename] = []
        retired: list[PartitionLog] = []
        for topic_partition in topic_partitions:
            log = self.logs.pop(topic_partition, None)
            self.damaged.pop(topic_partition, None)
            if log is not None:
                # Other files will have their names when the partition is created again.
                log.retire()
                retired.append(log)
            config = self._settings.config_of(topic_partition.topic) if log is None else log.config
            name = renamed_directory_name(topic_partition, kind, self._settings.new_id())
            due_ms = now_ms + config.file_delete_delay_ms if kind is DirectoryKind.DELETED else None
            renames.append(Rename(topic_partition, f"{self.path}/{name}", due_ms))
        forgetting = self.checkpoints.planned_forget(each.topic_partition for each in renames)
        return Retirement(self, renames, partial(self._retire, renames, retired, forgetting))

    def _retire(
        self,
        renames: Sequence[Rename],
        logs: Sequence[PartitionLog],
        forgetting: Sequence[Callable[[], None]],
    ) -> None:
        """Rename the directories, with one sync and one write of each checkpoint for all of them.

        If no descriptor was available, it may run again.
        """
        for log in logs:
            log.epoch_file.wait_for_write()
        for topic_partition, path, _ in renames:
            if not self.fs.exists(path):
                self.fs.rename(self._path_of(topic_partition), path)
        self.fs.fsync_dir(self.path)
        for write in forgetting:
            write()

    def on_retired(self, retirement: Retirement) -> None:
        """Remove the renamed directories of deleted partitions after file.delete.delay.ms."""
        for _, path, due_ms in retirement.renames:
            if due_ms is not None:
                self._deleted.add([path], due_ms)

    def take_expired(self, now_ms: int) -> list[str]:
        """Return the expired paths of deleted partitions and segments, once; the caller removes them."""
        paths = self._deleted.take_due(now_ms)
        for log in self.logs.values():
            paths += log.retention.take_expired_files(now_ms)
        return paths

    def put_back_expired(self, paths: Iterable[str], now_ms: int) -> None:
        """Let `take_expired` return these paths again, as they could not be removed."""
        self._deleted.add(paths, now_ms)

    # -- the observer of the logs

    def log_start_offset_changed(self, topic_partition: TopicPartition, log_start_offset: Offset) -> None:
        """Write the checkpoint of log start offsets; see LogObserver."""
        self.checkpoints.write_log_start(topic_partition, log_start_offset)

    def recovery_point_lowered(self, topic_partition: TopicPartition) -> None:
        """Write the checkpoint of recovery points; see LogObserver."""
        self.checkpoints.write(CheckpointKind.RECOVERY_POINT)

    def first_dirty_offset_lowered(self, topic_partition: TopicPartition) -> None:
        """Write the checkpoint of first dirty offsets; see LogObserver."""
        self.checkpoints.write(CheckpointKind.FIRST_DIRTY_OFFSET)

    def operation_refused(self, text: str, *, is_shortage: bool) -> None:
        """Log the refused operation; see LogObserver."""
        self.faults.record_failure(logging.WARNING if is_shortage else logging.ERROR, text)

    # -- closing

    def close(self, broker_epoch: int, now_ms: int) -> None:
        """Make everything durable, write the checkpoints, and write the marker of a clean shutdown.

        Without the marker, logs are verified from their recovery points on. It is not written while a
        partition is damaged, or if the start was not complete; then the checkpoints do not change either.
        """
        # A damaged partition was not recovered: after a repair its tail must still be verified.
        clean = not self.damaged
        for log in self.logs.values():
            try:
                log.close(clean=True, now_ms=now_ms)
            except (OSError, KafkaError):
                raise  # The disk has failed, which concerns the whole directory.
            except Exception:
                # A bug: the next start verifies this log; the other logs are closed nevertheless.
                _log.exception("%s cannot be closed cleanly", log.directory)
                clean = False
            clean = clean and log.failure is None
        if not self._is_loaded:
            # Some logs were not loaded: the checkpoints have all that is known about them.
            return
        for kind in CheckpointKind:
            self.checkpoints.write(kind)
        if clean:
            self._marker.write(broker_epoch)

    def take_offline(self, reason: str) -> None:
        """Stop using the directory: its disk has failed. Its logs refuse every further write."""
        self.offline_reason = reason
        self.faults.forget()
        self.lost_partitions = frozenset((*self.logs, *self.damaged, *self.in_creation))
        for log in self.logs.values():
            log.failures.fail(StorageFailure(self.path, "use", reason))
            log.retire()
        self.logs.clear()

    def require_usable(self, topic_partition: TopicPartition) -> None:
        """Raise KAFKA_STORAGE_ERROR for a partition whose files here are damaged."""
        damage = self.damaged.get(topic_partition)
        if damage is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic_partition} cannot be used: {damage}")

    def _path_of(self, topic_partition: TopicPartition) -> str:
        return f"{self.path}/{directory_name(topic_partition)}"
