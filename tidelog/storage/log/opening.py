"""The arguments with which a partition log is opened."""

from __future__ import annotations

from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.storage.disk.files import FileSystem


@dataclass(frozen=True, slots=True)
class LogLocation:
    """The directory of a log, and the partition that it belongs to."""

    fs: FileSystem
    directory: str
    topic_partition: TopicPartition
    topic_id: UUID | None = None
    """None for a partition that was created before topics had ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointedState:
    """The checkpointed offsets of a log; the defaults are those of a new log."""

    clean: bool = False
    """Whether the last shutdown was clean; else everything above `recovery_point` is verified."""
    recovery_point: Offset = 0
    log_start_offset: Offset = 0
    first_dirty_offset: Offset | None = None
    """Where compaction continues. If it is not None, the log may have gaps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The settings of the node that concern each log."""

    producer_id_expiration_ms: int
    remote_storage_system_enable: bool
    """Whether the node has remote storage, for topics that use it."""
