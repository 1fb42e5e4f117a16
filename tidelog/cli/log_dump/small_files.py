"""The entries of the small files of a log directory: snapshots of producers and checkpoints.

Errors: CorruptFile, with the file and the position of the defect.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from tidelog.protocol.ids import uuid_text
from tidelog.storage.disk.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    LeaderEpochCheckpoint,
    OffsetCheckpoint,
    PartitionMetadataFile,
)
from tidelog.storage.disk.files import FileSystem
from tidelog.storage.disk.log_files import SNAPSHOT_SUFFIX
from tidelog.storage.producers.producer_snapshot import decode_snapshot
from tidelog.storage.segment.index_checks import check_leader_epochs

SMALL_FILES: Final = frozenset(
    {
        LEADER_EPOCH_CHECKPOINT,
        PARTITION_METADATA,
        RECOVERY_POINT_CHECKPOINT,
        HIGH_WATERMARK_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
        "cleaner-offset-checkpoint",
    }
)


def entries_of(fs: FileSystem, path: Path, kind: str) -> list[dict[str, Any]]:
    """Return the entries of a file; `kind` is its name, or `.snapshot`."""
    if kind == SNAPSHOT_SUFFIX:
        return _producers(fs, path)
    if kind == LEADER_EPOCH_CHECKPOINT:
        return _leader_epochs(fs, path)
    if kind == PARTITION_METADATA:
        return [{"topic_id": uuid_text(PartitionMetadataFile(fs, str(path.parent)).read())}]
    offsets = OffsetCheckpoint(fs, str(path)).read()
    return [
        {"topic": topic, "partition": partition, "offset": offset}
        for (topic, partition), offset in offsets.items()
    ]


def _producers(fs: FileSystem, path: Path) -> list[dict[str, Any]]:
    return [
        {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "offset_delta": entry.last_offset_delta,
            "timestamp": entry.last_timestamp,
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
        }
        for entry in decode_snapshot(fs.read(str(path)), str(path))
    ]


def _leader_epochs(fs: FileSystem, path: Path) -> list[dict[str, Any]]:
    entries = LeaderEpochCheckpoint(fs, str(path)).read()
    check_leader_epochs(str(path), entries)
    return [{"leader_epoch": entry.epoch, "start_offset": entry.start_offset} for entry in entries]
