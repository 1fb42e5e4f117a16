"""Log managers with the directories /a and /b on a disk that can crash."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any
from uuid import UUID, uuid4

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import PRODUCER_ID_EXPIRATION_MS, log_config
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

TOPIC_ID = UUID(int=1)
EVENTS = TopicPartition("events", 0)
CONFIG = log_config()


def new_log_manager(disk: CrashFileSystem, dirs: Iterable[str], *args: Any, **options: Any) -> LogManager:
    """Return a log manager that is not started, with a broker's producer id expiration."""
    options.setdefault("new_id", uuid4)
    options.setdefault("producer_id_expiration_ms", PRODUCER_ID_EXPIRATION_MS)
    return LogManager(disk, dirs, *args, **options)


def start_log_manager(disk: CrashFileSystem, *dirs: str, now_ms: int = NOW_MS, **options: Any) -> LogManager:
    """Return a started log manager. Quarantined partitions get ids from 1."""
    ids = count(1)
    manager = new_log_manager(disk, dirs or ("/a", "/b"), new_id=lambda: UUID(int=next(ids)), **options)
    manager.start(now_ms)
    return manager


def create(manager: LogManager, name: str = "events", partition: int = 0, **options: Any) -> PartitionLog:
    """Return the partition, created if it is absent."""
    return get_or_create_log(manager, TopicPartition(name, partition), TOPIC_ID, CONFIG, NOW_MS, **options)


def get_or_create_log(
    manager: LogManager,
    topic_partition: TopicPartition,
    topic_id: UUID | None,
    config: LogConfig,
    now_ms: int,
    *,
    is_new: bool = True,
) -> PartitionLog:
    """Return the log of a partition; create it at once if it does not exist."""
    log = manager.find(topic_partition, topic_id, config, now_ms)
    if log is not None:
        return log
    creation = manager.planned_creation(topic_partition, topic_id, config, now_ms, is_new=is_new)
    outcome: PartitionLog | Exception
    try:
        outcome = creation.run()
    except Exception as error:
        outcome = error
    return manager.on_created(creation, outcome)


def delete_logs(manager: LogManager, topic_partitions: Iterable[TopicPartition], now_ms: int) -> None:
    """Stop using partitions, and rename their directories at once."""
    for deletion in manager.planned_deletions(topic_partitions, now_ms):
        try:
            deletion.run()
        except (OSError, StorageFailure) as error:
            manager.on_deleted(deletion, error)
        else:
            manager.on_deleted(deletion, None)


def existing_log(manager: LogManager, topic_partition: TopicPartition = EVENTS) -> PartitionLog:
    """Return an existing partition."""
    log = manager.get(topic_partition)
    assert log is not None
    return log


def remove_deleted_files(manager: LogManager, now_ms: int) -> int:
    """Remove the files and directories that were deleted file.delete.delay.ms ago; return their number."""
    removed = 0
    for work in manager.maintenance.planned_removals(now_ms):
        try:
            outcome = work.run()
        except (OSError, StorageFailure) as error:
            manager.maintenance.work_failed(work, error)
        else:
            assert isinstance(outcome, int)
            removed += outcome
    return removed


def write_checkpoint(manager: LogManager, kind: CheckpointKind) -> None:
    """Write a checkpoint in every directory with changes."""
    for work in manager.maintenance.planned_checkpoints(kind):
        try:
            work.run()
        except (OSError, StorageFailure) as error:
            manager.maintenance.work_failed(work, error)
