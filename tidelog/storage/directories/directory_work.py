"""What the disk of a log directory has to do that takes long: planned on the loop, run in any thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.log_directory import LogDirectory
from tidelog.storage.log.partition_log import PartitionLog


class DirectoryWork(NamedTuple):
    """Something slow that a log directory's disk has to do: `run` blocks, and may run in any thread.

    Errors of `run`: OSError, StorageFailure, which are for `LogManager.work_failed`.
    """

    directory: LogDirectory
    name: str
    run: Callable[[], object]
    plan_again: Callable[[], None] | None = None
    """Have the same planned later, when `run` found no descriptor; None: it is in any case."""


class LogCreation(NamedTuple):
    """A log that is to be made: `run` blocks, and may run in any thread.

    What it returns or raises is for `LogManager.created`.
    """

    directory: LogDirectory
    topic_partition: TopicPartition
    topic_id: UUID | None
    run: Callable[[], PartitionLog]
