"""All logs of a node, in the directories of `log.dirs`: opening, creating, deleting and maintaining them.

This is a core: a scheduler calls retention, removals, checkpoints and flushes at their intervals. A directory
whose disk fails goes offline with its partitions; the node continues while another one is online. A lack of
file descriptors is not a failure of a disk: an operation that needs one is refused, or executed later.

Errors: KafkaError KAFKA_STORAGE_ERROR for a partition that is on a failed or damaged disk.
Source: kafka.log.LogManager of Apache Kafka 4.3; KIP-112 (JBOD), KIP-858.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from uuid import UUID

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.directory_work import DirectoryWork, LogCreation
from tidelog.storage.directories.log_directory import DirectorySettings, LogDirectory, Retirement
from tidelog.storage.directories.partition_directory import DirectoryKind
from tidelog.storage.disk.errors import StorageFailure, is_descriptor_shortage
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.log.partition_log import PartitionLog

_log = logging.getLogger(__name__)


class LogManager:
    """The logs of a node by partition, with their log directories."""

    def __init__(
        self,
        fs: FileSystem,
        log_dirs: Iterable[str],
        default_config: LogConfig = DEFAULT_LOG_CONFIG,
        *,
        producer_id_expiration_ms: int,
        new_id: Callable[[], UUID],
        remote_storage_system_enable: bool = True,
    ) -> None:
        self._default_config = default_config
        self._config_of: Callable[[str], LogConfig] | None = None
        settings = DirectorySettings(
            self._config_for, producer_id_expiration_ms, new_id, remote_storage_system_enable
        )
        self.directories = [LogDirectory(fs, path, settings) for path in log_dirs]
        assert self.directories, "a node needs at least one log directory"
        self.cordoned: frozenset[str] = frozenset()
        """Paths of directories that get no new partitions while others can (cordoned.log.dirs)."""
        self.on_offline: Callable[[LogDirectory], None] | None = None
        """Called with a directory that was taken offline while the node runs."""

    # -- opening and finding

    def start(self, now_ms: int, config_of: Callable[[str], LogConfig] | None = None) -> None:
        """Open every log; `config_of` returns a topic's settings, None: all topics have the defaults.

        Errors: KafkaError KAFKA_STORAGE_ERROR if no directory can be used; ConfigError for a tiered
        partition on a node without remote storage; OSError for lack of descriptors.
        """
        self._config_of = config_of
        for directory in self.directories:
            try:
                directory.load(now_ms)
            except (OSError, KafkaError) as error:
                if is_descriptor_shortage(error):
                    raise
                self.take_offline(directory, str(error))
        self._refuse_duplicates()
        if not self.online_directories:
            reasons = "; ".join(str(directory.offline_reason) for directory in self.directories)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no log directory can be used: {reasons}")

    def _config_for(self, topic: str) -> LogConfig:
        return self._default_config if self._config_of is None else self._config_of(topic)

    def _refuse_duplicates(self) -> None:
        """Treat two logs of one partition as damaged; topics with the same name have different ids."""
        seen: dict[tuple[TopicPartition, UUID | None], LogDirectory] = {}
        for directory in self.online_directories:
            for topic_partition, log in list(directory.logs.items()):
                first = seen.setdefault((topic_partition, log.topic_id), directory)
                if first is not directory:
                    for owner in (first, directory):
                        reason = f"{topic_partition} is in {first.path} and in {directory.path}"
                        _log.error("partition cannot be used: %s", reason)
                        owner.logs.pop(topic_partition, None)
                        owner.damaged[topic_partition] = reason

    @property
    def online_directories(self) -> list[LogDirectory]:
        """The directories that can be used."""
        return [directory for directory in self.directories if directory.offline_reason is None]

    @property
    def logs(self) -> Iterator[PartitionLog]:
        """Every log that can be used."""
        for directory in self.online_directories:
            yield from directory.logs.values()

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the partition's log; None if it is not here or cannot be used."""
        for directory in self.online_directories:
            log = directory.logs.get(topic_partition)
            if log is not None:
                return log
        return None

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        now_ms: int,
        *,
        is_new: bool = True,
    ) -> PartitionLog:
        """Return the partition's log; create it in the directory with the fewest partitions if it is missing.

        Errors: those of `find`, `planned_creation` and `on_created`, which this method calls.
        """
        log = self.find(topic_partition, topic_id, config, now_ms)
        if log is not None:
            return log
        creation = self.planned_creation(topic_partition, topic_id, config, now_ms, is_new=is_new)
        outcome: PartitionLog | Exception
        try:
            outcome = creation.run()
        except Exception as error:
            outcome = error
        return self.on_created(creation, outcome)

    def find(
        self, topic_partition: TopicPartition, topic_id: UUID | None, config: LogConfig, now_ms: int
    ) -> PartitionLog | None:
        """Return the partition's log and update its settings; return None if it is not here.

        The directory of an older topic with the same name is renamed as a stray.
        Errors: KafkaError KAFKA_STORAGE_ERROR if it is damaged.
        """
        for directory in self.online_directories:
            directory.require_usable(topic_partition)
            log = directory.logs.get(topic_partition)
            if log is None:
                continue
            if topic_id is None or log.topic_id == topic_id:
                log.update_config(config)
                return log
            with self._offline_on_failure(directory):
                if log.topic_id is None:
                    directory.assign_topic_id(log, topic_id)
                    log.update_config(config)
                    return log
                _log.warning("%s holds topic id %s, not %s", log.directory, log.topic_id, topic_id)
                directory.retire([topic_partition], DirectoryKind.STRAY, now_ms)
        return None

    def planned_creation(
        self,
        topic_partition: TopicPartition,
        topic_id: UUID | None,
        config: LogConfig,
        now_ms: int,
        *,
        is_new: bool = True,
    ) -> LogCreation:
        """Return the creation of a log that is not here, in the directory with the fewest partitions.

        With `is_new` False the partition has existed before: it is not created while a directory that may
        contain it is offline. Errors: KafkaError KAFKA_STORAGE_ERROR then, or if no directory is online.
        """
        self._require_not_offline(topic_partition, is_new)
        online = self.online_directories
        directory = min(
            [each for each in online if each.path not in self.cordoned] or online,
            key=lambda d: len(d.logs) + len(d.in_creation) + len(d.damaged),
        )
        run = directory.planned_creation(topic_partition, topic_id, config, now_ms)
        return LogCreation(directory, topic_partition, topic_id, run)

    def on_created(self, creation: LogCreation, outcome: PartitionLog | Exception) -> PartitionLog:
        """Use a log whose creation has run, and return it; `outcome` is the result of `run` or its error.

        Errors: KafkaError KAFKA_STORAGE_ERROR if the disk failed, or the directory went offline meanwhile;
        any other error of `run`.
        """
        directory = creation.directory
        directory.in_creation.discard(creation.topic_partition)
        if directory.offline_reason is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{creation.topic_partition} cannot be created in {directory.path}, which is offline: "
                f"{directory.offline_reason}",
            )
        with self._offline_on_failure(directory):
            if isinstance(outcome, Exception):
                raise outcome
            directory.on_created(outcome)
        return outcome

    def _require_not_offline(self, topic_partition: TopicPartition, is_new: bool) -> None:
        for directory in self.directories:
            if directory.offline_reason is not None and (not is_new or topic_partition in directory.lost):
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{topic_partition} is or may be in {directory.path}, which is offline: "
                    f"{directory.offline_reason}",
                )
        if not self.online_directories:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every log directory is offline")

    def delete_all(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> None:
        """Stop using partitions and rename their directories now; see `planned_deletions`."""
        for deletion in self.planned_deletions(topic_partitions, now_ms):
            try:
                deletion.run()
            except (OSError, StorageFailure) as error:
                self.on_deleted(deletion, error)
            else:
                self.on_deleted(deletion, None)

    def planned_deletions(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> list[Retirement]:
        """Stop using partitions; `run` renames their directories, removed after file.delete.delay.ms.

        Partitions that are not here are ignored; damaged ones are deleted, too.
        """
        wanted = list(topic_partitions)
        return [
            directory.planned_retirement(here, DirectoryKind.DELETED, now_ms)
            for directory in self.online_directories
            if (here := [each for each in wanted if each in directory.logs or each in directory.damaged])
        ]

    def on_deleted(self, deletion: Retirement, error: Exception | None) -> None:
        """Complete a deletion that has run; its log directory goes offline after an error."""
        directory = deletion.directory
        if error is None:
            directory.on_retired(deletion)
        else:
            self._failed(directory, error)

    def set_strays_aside(self, expected: Mapping[TopicPartition, UUID], now_ms: int) -> list[TopicPartition]:
        """Rename the partitions that the metadata does not assign to this node, and return them.

        A partition whose topic id differs from the expected one is a stray, too.
        """
        strays: list[TopicPartition] = []
        for directory in self.online_directories:
            found = directory.strays(expected)
            self._retire_in(directory, found, DirectoryKind.STRAY, now_ms)
            strays += found
        return strays

    @property
    def found_out_of_use(self) -> list[tuple[TopicPartition, UUID]]:
        """Deleted and stray partitions on the disks, with their topic ids."""
        return [each for directory in self.online_directories for each in directory.found_out_of_use]

    def set_damaged_aside(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        """Rename a damaged partition, so that it can be created again; return False if it is not damaged."""
        for directory in self.online_directories:
            if topic_partition in directory.damaged:
                self._retire_in(directory, [topic_partition], DirectoryKind.STRAY, now_ms)
                return True
        return False

    def _retire_in(
        self,
        directory: LogDirectory,
        topic_partitions: Sequence[TopicPartition],
        kind: DirectoryKind,
        now_ms: int,
    ) -> None:
        if not topic_partitions:
            return
        try:
            with self._offline_on_failure(directory):
                directory.retire(topic_partitions, kind, now_ms)
        except KafkaError as error:
            _log.error("cannot rename the directories of partitions in %s: %s", directory.path, error)

    # -- maintenance, called by a scheduler

    def apply_retention(self, now_ms: int) -> int:
        """Delete expired segments of every log; return their number (log.retention.check.interval.ms)."""
        return self._sum(lambda directory: directory.apply_retention(now_ms))

    def planned_removals(self, now_ms: int) -> list[DirectoryWork]:
        """Return the removals of files that were deleted file.delete.delay.ms ago, for another thread."""
        return [
            DirectoryWork(
                each,
                "removal of deleted files",
                partial(each.remove, paths),
                plan_again=partial(each.put_back_expired, paths, now_ms),
            )
            for each in self.online_directories
            if (paths := each.take_expired(now_ms))
        ]

    def planned_checkpoints(self, kind: CheckpointKind) -> list[DirectoryWork]:
        """Return the writes of a checkpoint in every directory where it has changed, for another thread."""
        self.take_failed_offline()
        return [
            DirectoryWork(each, f"{kind.value} checkpoint", write)
            for each in self.online_directories
            if (write := each.checkpoints.planned(kind)) is not None
        ]

    def work_failed(self, work: DirectoryWork, error: Exception) -> None:
        """Take the directory of failed work offline; nothing is retried.

        If no descriptor was available, the disk has not failed: the work is planned again.
        """
        if work.plan_again is not None and is_descriptor_shortage(error):
            work.plan_again()
        self._failed(work.directory, error, work.name)

    def report_faults(self) -> None:
        """Log how often operations were refused since the last call, and faults that have ended."""
        for directory in self.online_directories:
            directory.faults.report()

    def use_producer_id_expiration(self, expiration_ms: int) -> None:
        """Use a changed producer.id.expiration.ms."""
        for directory in self.directories:
            directory.use_producer_id_expiration(expiration_ms)

    def remove_expired_producers(self, now_ms: int) -> None:
        """Remove idle producers of every log (producer.id.expiration.check.interval.ms)."""
        for log in self.logs:
            log.producers.remove_expired(now_ms)

    def logs_to_flush(self, now_ms: int) -> list[PartitionLog]:
        """Return the logs whose flush.messages or flush.ms is reached, or that have sealed a segment.

        For each the caller runs `flush_plan()` in another thread, then calls `flushed` or `disk_failed`.
        """
        return [log for log in self.logs if log.needs_flush(now_ms)]

    def disk_failed(self, log: PartitionLog, error: Exception) -> None:
        """Take the directory of `log` offline, as its disk has failed; nothing is retried."""
        for directory in self.online_directories:
            if directory.logs.get(log.topic_partition) is log:
                self._failed(directory, error)

    def take_failed_offline(self) -> list[LogDirectory]:
        """Take every directory offline in which a log has failed, and return these directories.

        A change that lack of descriptors has interrupted is completed, if that is possible now.
        """
        failed = []
        for directory in self.online_directories:
            failure = next(filter(None, map(_failure_of, directory.logs.values())), None)
            if failure is not None:
                self.take_offline(directory, str(failure))
                failed.append(directory)
        return failed

    def take_offline(self, directory: LogDirectory, reason: str) -> None:
        """Stop using a directory whose disk has failed."""
        _log.error("log directory %s goes offline: %s", directory.path, reason)
        directory.take_offline(reason)
        if self.on_offline is not None:
            self.on_offline(directory)

    def _failed(self, directory: LogDirectory, error: Exception, operation: str = "") -> None:
        """Stop using a directory, unless the error was only a lack of descriptors."""
        reason = f"{operation}: {error}" if operation else str(error)
        if is_descriptor_shortage(error):
            directory.operation_refused(f"{reason}; trying again later", is_shortage=True)
        elif directory.offline_reason is None:
            self.take_offline(directory, reason)

    def shutdown(self, now_ms: int, broker_epoch: int = -1) -> None:
        """Make everything durable and write the markers of a clean shutdown; no flush may be running."""
        self.take_failed_offline()
        for directory in self.online_directories:
            try:
                directory.close(broker_epoch, now_ms)
            except (OSError, KafkaError) as error:
                if is_descriptor_shortage(error):
                    _log.error("%s is not closed cleanly, its logs need recovery: %s", directory.path, error)
                else:
                    self.take_offline(directory, str(error))

    def _sum(self, work: Callable[[LogDirectory], int | None]) -> int:
        """Execute `work` for every directory; one that fails goes offline, the others continue."""
        self.take_failed_offline()
        total = 0
        for directory in self.online_directories:
            try:
                with self._offline_on_failure(directory):
                    total += work(directory) or 0
            except KafkaError as error:
                _log.error("maintenance of log directory %s failed: %s", directory.path, error)
        return total

    @contextmanager
    def _offline_on_failure(self, directory: LogDirectory) -> Iterator[None]:
        try:
            yield
        except (OSError, StorageFailure) as error:
            self._failed(directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path}: {error}") from error


def _failure_of(log: PartitionLog) -> StorageFailure | None:
    """Return why the disk of a log cannot be used; None if it can."""
    if log.failure is not None:
        with suppress(KafkaError):
            log.resume_interrupted()
    return None if is_descriptor_shortage(log.failure) else log.failure
