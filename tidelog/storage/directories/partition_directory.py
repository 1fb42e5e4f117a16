"""The names of partition directories, and what their suffixes mean.

`topic-3` is in use. `topic-3.<32 hex digits>-delete` was deleted and will be removed, `-stray` is not
assigned to this node, `-future` is an incomplete copy from another log directory. A topic may contain dashes
and dots, so the partition follows the last dash.

Source: LocalLog.parseTopicPartitionName of Apache Kafka 4.3.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.ids import TopicPartition

NAME_BYTES_MAX: Final = 255
_PARTITION_MAX: Final = 2**31 - 1


class DirectoryKind(Enum):
    """The purpose of a partition directory; the value is the suffix of its name."""

    IN_USE = ""
    DELETED = "-delete"
    STRAY = "-stray"
    FUTURE = "-future"


class PartitionDirectory(NamedTuple):
    """The partition and kind of a directory, from its name."""

    topic_partition: TopicPartition
    kind: DirectoryKind


def directory_name(topic_partition: TopicPartition) -> str:
    """Return the name of the directory of a partition in use."""
    return str(topic_partition)


def future_name_bytes(topic_partition: TopicPartition) -> int:
    """Return the length of the name of a future log, which is not truncated: it must show the partition."""
    return len(f"{topic_partition}.{'0' * 32}{DirectoryKind.FUTURE.value}")


def renamed_directory_name(topic_partition: TopicPartition, kind: DirectoryKind, unique_id: UUID) -> str:
    """Return the name of a directory that is no longer used; a topic name that is too long is truncated."""
    tail = f"-{topic_partition.partition}.{unique_id.hex}{kind.value}"
    return topic_partition.topic[: NAME_BYTES_MAX - len(tail)] + tail


def parse_directory_name(name: str) -> PartitionDirectory | None:
    """Return the partition and kind of a directory; None if `name` is not that of a partition directory."""
    kind = DirectoryKind.IN_USE
    for candidate in (DirectoryKind.DELETED, DirectoryKind.STRAY, DirectoryKind.FUTURE):
        if name.endswith(candidate.value):
            kind = candidate
            name, dot, unique_id = name.removesuffix(candidate.value).rpartition(".")
            if not dot or not unique_id:
                return None
            break
    topic, dash, partition = name.rpartition("-")
    if not topic or not dash or not partition.isascii() or not partition.isdigit():
        return None
    number = int(partition)
    if number > _PARTITION_MAX:
        return None
    return PartitionDirectory(TopicPartition(topic, number), kind)
