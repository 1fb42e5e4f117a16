"""Slow work on the disk of a log directory: planned on the event loop, run in any thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.log.partition_log import PartitionLog


class DirectoryWork(NamedTuple):
    """Slow work on the disk of a log directory: `run` blocks, and may run in any thread.

    Errors of `run`: OSError, StorageFailure; the caller passes them to `LogMaintenance.work_failed`.
    """

    directory: LogDirectory
    name: str
    run: Callable[[], object]
    plan_again: Callable[[], None] | None = None
    """Plan the same work again, if `run` found no descriptor; None if it is planned again in any case."""


class LogCreation(NamedTuple):
    """The creation of a log: `run` blocks, and may run in any thread.

    The caller passes its result or error to `LogManager.on_created`.
    """

    directory: LogDirectory
    topic_partition: TopicPartition
    topic_id: UUID | None
    run: Callable[[], PartitionLog]
