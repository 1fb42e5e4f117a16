"""The partition directories that a log directory contains when a node starts.

    topic-3             in use, except that of the metadata log, which the quorum opens itself
    topic-3.…-delete    deleted before the last stop, and not removed yet
    topic-3.…-future    an incomplete copy of a log in another directory
    topic-3.…-stray     ignored, as are names that no partition can have

Errors: OSError if the directory cannot be listed.
"""

from __future__ import annotations

import logging
from dataclasses import field
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.partition_directory import (
    NAME_BYTES_MAX,
    DirectoryKind,
    parse_directory_name,
)
from tidelog.storage.disk.checkpoints import PartitionMetadataFile
from tidelog.storage.disk.errors import CorruptFile
from tidelog.storage.disk.files import FileSystem

NOT_PARTITIONS: Final = frozenset({"remote-log-index-cache", "remote-log-metadata"})
"""Directories that tiered storage has next to the partitions."""

METADATA_TOPIC: Final = "__cluster_metadata"

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DirectoryContents:
    """The partitions of one log directory by the purpose of their directories."""

    in_use: list[TopicPartition] = field(default_factory=list)
    deleted_paths: list[str] = field(default_factory=list)
    interrupted_copies: dict[TopicPartition, str] = field(default_factory=dict)
    """The paths of incomplete copies."""
    unused: list[tuple[TopicPartition, UUID]] = field(default_factory=list)
    """Deleted and stray partitions with their topic ids, as far as these can be read."""


def read_contents(fs: FileSystem, directory: str) -> DirectoryContents:
    """Return the partitions of `directory`; log a warning for each directory that is ignored."""
    contents = DirectoryContents()
    for name in fs.listdir(directory):
        path = f"{directory}/{name}"
        if name in NOT_PARTITIONS or not fs.is_dir(path):
            continue
        parsed = parse_directory_name(name)
        if parsed is None:
            logger.warning("%s is ignored: it is not named like a partition", path)
            continue
        # A name of the largest length is cut: its topic may be another one.
        is_cut = len(name) >= NAME_BYTES_MAX
        if parsed.kind in (DirectoryKind.DELETED, DirectoryKind.STRAY) and not is_cut:
            topic_id = _topic_id(fs, path)
            if topic_id is not None:
                contents.unused.append((parsed.topic_partition, topic_id))
        if parsed.kind is DirectoryKind.DELETED:
            contents.deleted_paths.append(path)
        elif parsed.kind is DirectoryKind.FUTURE and not is_cut:
            logger.warning("%s is ignored: it is an incomplete copy of a log in another directory", path)
            contents.interrupted_copies[parsed.topic_partition] = path
        elif parsed.kind is not DirectoryKind.IN_USE:
            logger.warning("%s is ignored: it is a stray partition", path)
        elif parsed.topic_partition.topic != METADATA_TOPIC:
            contents.in_use.append(parsed.topic_partition)
    return contents


def _topic_id(fs: FileSystem, path: str) -> UUID | None:
    """Return the topic id of a partition; None if it is partly removed, or older than topic ids."""
    try:
        return PartitionMetadataFile(fs, path).read()
    except (OSError, CorruptFile, DecodeError):
        return None
