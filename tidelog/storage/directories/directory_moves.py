"""The logs that are moved to a log directory or away from it."""

from __future__ import annotations

from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.future_log import FutureLog
from tidelog.storage.log.partition_log import PartitionLog


@dataclass(slots=True)
class DirectoryMoves:
    """The moves of one log directory; `tidelog.storage.directories.log_move` changes them."""

    future_logs: dict[TopicPartition, FutureLog] = field(default_factory=dict)
    """The copies here of logs in other directories."""
    arriving: dict[TopicPartition, PartitionLog] = field(default_factory=dict)
    """Logs in other directories whose durable copy here is about to replace them."""
    departed: set[TopicPartition] = field(default_factory=set)
    """Logs that are in another directory now, and whose files here are not removed yet."""
    interrupted: dict[TopicPartition, str] = field(default_factory=dict)
    """The directories of incomplete copies that were here at the start."""
