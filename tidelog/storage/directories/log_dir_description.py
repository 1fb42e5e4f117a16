"""The description of log directories for DescribeLogDirs."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.protocol.steps import Steps
from tidelog.storage.directories.log_directory import LogDirectory


class PartitionSize(NamedTuple):
    """One partition in the response to DescribeLogDirs."""

    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: Offset
    """How far the log end is behind the high watermark; 0 for a leader.

    For a future log: how far its end is behind the end of the log.
    """
    is_future: bool = False
    """Whether it is a copy that will replace the log in another directory."""


class LogDirDescription(NamedTuple):
    """One directory in the response to DescribeLogDirs; sizes are -1 if it is offline."""

    path: str
    error_code: ErrorCode
    partitions: list[PartitionSize]
    total_bytes: int
    usable_bytes: int


def describe_log_dir(directory: LogDirectory) -> Steps[LogDirDescription]:
    """Return the sizes of the directory and its partitions, in steps."""
    if directory.offline_reason is not None:
        return LogDirDescription(directory.path, ErrorCode.KAFKA_STORAGE_ERROR, [], -1, -1)
    space = directory.fs.space(directory.path)
    partitions = []
    for key, log in list(directory.logs.items()):
        lag = max(log.high_watermark - log.log_end_offset, 0)
        partitions.append(PartitionSize(key, log.size_bytes, lag))
        yield None
    for key, future in list(directory.moves.future_logs.items()):
        partitions.append(PartitionSize(key, future.size_bytes, future.offset_lag, is_future=True))
        yield None
    return LogDirDescription(
        directory.path, ErrorCode.NONE, partitions, space.total_bytes, space.usable_bytes
    )
