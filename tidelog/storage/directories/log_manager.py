"""All logs of a node, in the directories of `log.dirs`: opening, creating and deleting them.

A directory whose disk fails goes offline with its partitions; the node continues while another one is online.
A lack of file descriptors is not a failure of a disk: an operation that needs one is refused, or executed
later.

Errors: KafkaError KAFKA_STORAGE_ERROR for a partition that is on a failed or damaged disk.
Source: kafka.log.LogManager of Apache Kafka 4.3; KIP-112 (JBOD), KIP-858.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG
from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.directories.future_log import REPLACEMENT_MARKER
from tidelog.storage.directories.log_directories import LogDirectories
from tidelog.storage.directories.log_directory import DirectorySettings, LogDirectory, Retirement
from tidelog.storage.directories.log_maintenance import LogMaintenance
from tidelog.storage.directories.partition_directory import DirectoryKind, directory_name
from tidelog.storage.disk.errors import is_descriptor_shortage
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.log.partition_log import PartitionLog

_log = logging.getLogger(__name__)

PREFERENCES_MAX: Final = 10_000
"""The maximum number of partitions that are not here for which a directory is kept."""


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
        self.directories = LogDirectories(LogDirectory(fs, path, settings) for path in log_dirs)
        self.maintenance = LogMaintenance(self.directories)
        self._cordoned: frozenset[str] = frozenset()
        self._preferred: dict[TopicPartition, str] = {}
        """The directories that AlterReplicaLogDirs has requested for partitions that are not here yet."""

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
                self.directories.take_offline(directory, str(error))
        self._resolve_duplicates(now_ms)
        if not self.directories.online:
            reasons = "; ".join(str(directory.offline_reason) for directory in self.directories)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"no log directory can be used: {reasons}")

    def _config_for(self, topic: str) -> LogConfig:
        return self._default_config if self._config_of is None else self._config_of(topic)

    def _resolve_duplicates(self, now_ms: int) -> None:
        """Delete a log whose move to another directory was interrupted; treat other duplicates as damaged.

        Topics with the same name have different ids.
        """
        first_logs: dict[TopicPartition, tuple[LogDirectory, UUID | None]] = {}
        for directory in self.directories.online:
            for topic_partition, log in list(directory.logs.items()):
                first, topic_id = first_logs.setdefault(topic_partition, (directory, log.topic_id))
                # The topic id of a log that was never flushed may be lost.
                is_same = topic_id == log.topic_id or topic_id is None or log.topic_id is None
                if first is directory or not is_same:
                    continue
                if not self._complete_move(topic_partition, (first, directory), now_ms):
                    for owner in (first, directory):
                        reason = f"{topic_partition} is in {first.path} and in {directory.path}"
                        _log.error("partition cannot be used: %s", reason)
                        owner.mark_damaged(topic_partition, reason)

    def _complete_move(
        self, topic_partition: TopicPartition, owners: tuple[LogDirectory, LogDirectory], now_ms: int
    ) -> bool:
        """Delete the older of two logs, if the other one is its replacement; return whether it is."""
        replacements = [
            each
            for each in owners
            if each.fs.exists(f"{each.path}/{directory_name(topic_partition)}/{REPLACEMENT_MARKER}")
        ]
        if len(replacements) != 1:
            return False
        replacement = replacements[0]
        replaced = owners[0] if owners[1] is replacement else owners[1]
        _log.warning(
            "%s is in %s and in %s: it was being moved to the latter, which is used",
            topic_partition,
            replaced.path,
            replacement.path,
        )
        self._retire_in(replaced, [topic_partition], DirectoryKind.DELETED, now_ms)
        return True

    @property
    def logs(self) -> Iterator[PartitionLog]:
        """Every log that can be used."""
        return self.directories.logs

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the partition's log; None if it is not here or cannot be used."""
        return self.directories.get(topic_partition)

    def find(
        self, topic_partition: TopicPartition, topic_id: UUID | None, config: LogConfig, now_ms: int
    ) -> PartitionLog | None:
        """Return the partition's log and update its settings; return None if it is not here.

        The directory of an older topic with the same name is renamed as a stray.
        Errors: KafkaError KAFKA_STORAGE_ERROR if it is damaged.
        """
        for directory in self.directories.online:
            directory.require_usable(topic_partition)
            log = directory.logs.get(topic_partition)
            if log is None:
                continue
            if topic_id is None or log.topic_id == topic_id:
                log.update_config(config)
                return log
            with self.directories.offline_on_failure(directory):
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
        directory = self._directory_for(topic_partition)
        run = directory.planned_creation(topic_partition, topic_id, config, now_ms)
        return LogCreation(directory, topic_partition, topic_id, run)

    def _directory_for(self, topic_partition: TopicPartition) -> LogDirectory:
        """Return the directory for a new log: the preferred one, or the one with the fewest partitions."""
        # The files of a log that was moved away may still have the name of the new log.
        online = [each for each in self.directories.online if topic_partition not in each.moves.departed]
        if not online:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the files of {topic_partition} are still being removed"
            )
        preferred = self._preferred.pop(topic_partition, None)
        for each in online:
            if each.path == preferred:
                return each
        return min(
            [each for each in online if each.path not in self._cordoned] or online,
            key=lambda d: len(d.logs) + len(d.in_creation) + len(d.damaged),
        )

    def prefer(self, topic_partition: TopicPartition, path: str) -> None:
        """Create the log of a partition that is not here in this directory, if it is online then."""
        self._preferred.pop(topic_partition, None)
        self._preferred[topic_partition] = path
        if len(self._preferred) > PREFERENCES_MAX:
            del self._preferred[next(iter(self._preferred))]

    def on_created(self, creation: LogCreation, outcome: PartitionLog | Exception) -> PartitionLog:
        """Use a log whose creation has run, and return it; `outcome` is the result of `run` or its error.

        Errors: KafkaError KAFKA_STORAGE_ERROR if the disk failed, or the directory went offline meanwhile;
        any other error of `run`.
        """
        directory = creation.directory
        log = None if isinstance(outcome, Exception) or directory.offline_reason is not None else outcome
        directory.on_created(creation.topic_partition, log)
        if directory.offline_reason is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"{creation.topic_partition} cannot be created in {directory.path}, which is offline: "
                f"{directory.offline_reason}",
            )
        with self.directories.offline_on_failure(directory):
            if isinstance(outcome, Exception):
                raise outcome
        return outcome

    def _require_not_offline(self, topic_partition: TopicPartition, is_new: bool) -> None:
        for directory in self.directories:
            if directory.offline_reason is not None and (
                not is_new or topic_partition in directory.lost_partitions
            ):
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{topic_partition} is or may be in {directory.path}, which is offline: "
                    f"{directory.offline_reason}",
                )
        if not self.directories.online:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "every log directory is offline")

    def planned_deletions(self, topic_partitions: Iterable[TopicPartition], now_ms: int) -> list[Retirement]:
        """Stop using partitions; `run` renames their directories, removed after file.delete.delay.ms.

        Partitions that are not here are ignored; damaged ones are deleted, too.
        """
        wanted = list(topic_partitions)
        return [
            directory.planned_retirement(here, DirectoryKind.DELETED, now_ms)
            for directory in self.directories.online
            if (here := [each for each in wanted if each in directory.logs or each in directory.damaged])
        ]

    def on_deleted(self, deletion: Retirement, error: Exception | None) -> None:
        """Complete a deletion that has run; its log directory goes offline after an error."""
        directory = deletion.directory
        if error is None:
            directory.on_retired(deletion)
        else:
            self.directories.operation_failed(directory, error)

    def retire_strays(self, expected: Mapping[TopicPartition, UUID], now_ms: int) -> list[TopicPartition]:
        """Rename the partitions that the metadata does not assign to this node, and return them.

        A partition whose topic id differs from the expected one is a stray, too.
        """
        strays: list[TopicPartition] = []
        for directory in self.directories.online:
            found = directory.strays(expected)
            self._retire_in(directory, found, DirectoryKind.STRAY, now_ms)
            strays += found
        return strays

    @property
    def unused_partitions(self) -> list[tuple[TopicPartition, UUID]]:
        """Deleted and stray partitions on the disks, with their topic ids."""
        return [each for directory in self.directories.online for each in directory.unused_partitions]

    def retire_damaged(self, topic_partition: TopicPartition, now_ms: int) -> bool:
        """Rename a damaged partition, so that it can be created again; return False if it is not damaged."""
        for directory in self.directories.online:
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
            with self.directories.offline_on_failure(directory):
                directory.retire(topic_partitions, kind, now_ms)
        except KafkaError as error:
            _log.error("cannot rename the directories of partitions in %s: %s", directory.path, error)

    # -- settings and shutdown

    @property
    def cordoned(self) -> frozenset[str]:
        """The paths of directories that get no new partitions while others can (cordoned.log.dirs)."""
        return self._cordoned

    def cordon(self, paths: frozenset[str]) -> None:
        """Create no partition in these directories while another one is online."""
        self._cordoned = paths

    def use_producer_id_expiration(self, expiration_ms: int) -> None:
        """Use a changed producer.id.expiration.ms."""
        for directory in self.directories:
            directory.use_producer_id_expiration(expiration_ms)

    def shutdown(self, now_ms: int, broker_epoch: int = -1) -> None:
        """Make everything durable and write the markers of a clean shutdown; no flush may be running."""
        self.directories.take_failed_offline()
        for directory in self.directories.online:
            try:
                directory.close(broker_epoch, now_ms)
            except (OSError, KafkaError) as error:
                if is_descriptor_shortage(error):
                    _log.error("%s is not closed cleanly, its logs need recovery: %s", directory.path, error)
                else:
                    self.directories.take_offline(directory, str(error))
