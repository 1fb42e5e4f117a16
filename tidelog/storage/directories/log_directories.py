"""The log directories of a node: which are online, and what happens when one fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import overload

from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.disk.errors import StorageFailure, is_descriptor_shortage
from tidelog.storage.log.partition_log import PartitionLog

_log = logging.getLogger(__name__)


class LogDirectories(Sequence[LogDirectory]):
    """The directories of `log.dirs` in their order, also those that are offline."""

    def __init__(self, directories: Iterable[LogDirectory]) -> None:
        self._directories = list(directories)
        assert self._directories, "a node needs at least one log directory"
        self._on_offline: Callable[[LogDirectory], None] | None = None
        """Called with a directory that was taken offline while the node runs."""

    @overload
    def __getitem__(self, index: int) -> LogDirectory: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[LogDirectory]: ...

    def __getitem__(self, index: int | slice) -> LogDirectory | Sequence[LogDirectory]:
        return self._directories[index]

    def __len__(self) -> int:
        return len(self._directories)

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that can be used."""
        return [directory for directory in self._directories if directory.offline_reason is None]

    @property
    def logs(self) -> Iterator[PartitionLog]:
        """Every log that can be used."""
        for directory in self.online:
            yield from directory.logs.values()

    def get(self, topic_partition: TopicPartition) -> PartitionLog | None:
        """Return the partition's log; None if it is not here or cannot be used."""
        for directory in self.online:
            log = directory.logs.get(topic_partition)
            if log is not None:
                return log
        return None

    # -- failures

    def call_when_offline(self, callback: Callable[[LogDirectory], None] | None) -> None:
        """Call `callback` for each directory that goes offline from now on; None to call nothing."""
        self._on_offline = callback

    def take_offline(self, directory: LogDirectory, reason: str) -> None:
        """Stop using a directory whose disk has failed."""
        _log.error("log directory %s goes offline: %s", directory.path, reason)
        directory.take_offline(reason)
        if self._on_offline is not None:
            self._on_offline(directory)

    def take_failed_offline(self) -> list[LogDirectory]:
        """Take every directory offline in which a log has failed, and return these directories.

        A change that lack of descriptors has interrupted is completed, if that is possible now.
        """
        failed = []
        for directory in self.online:
            failure = next(filter(None, map(_failure_of, directory.logs.values())), None)
            if failure is not None:
                self.take_offline(directory, str(failure))
                failed.append(directory)
        return failed

    def operation_failed(self, directory: LogDirectory, error: Exception, operation: str = "") -> None:
        """Take a directory offline after an error of its disk, unless only descriptors were not available."""
        reason = f"{operation}: {error}" if operation else str(error)
        if is_descriptor_shortage(error):
            directory.operation_refused(f"{reason}; trying again later", is_shortage=True)
        elif directory.offline_reason is None:
            self.take_offline(directory, reason)

    def disk_failed(self, log: PartitionLog, error: Exception) -> None:
        """Take the directory of `log` offline, as its disk has failed; nothing is retried."""
        for directory in self.online:
            if directory.logs.get(log.topic_partition) is log:
                self.operation_failed(directory, error)

    @contextmanager
    def offline_on_failure(self, directory: LogDirectory) -> Iterator[None]:
        """Take the directory offline if the context fails, and raise KafkaError KAFKA_STORAGE_ERROR."""
        try:
            yield
        except (OSError, StorageFailure) as error:
            self.operation_failed(directory, error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{directory.path}: {error}") from error


def _failure_of(log: PartitionLog) -> StorageFailure | None:
    """Return why the disk of a log cannot be used; None if it can."""
    if log.failure is not None:
        with suppress(KafkaError):
            log.failures.resume_interrupted()
    return None if is_descriptor_shortage(log.failure) else log.failure
