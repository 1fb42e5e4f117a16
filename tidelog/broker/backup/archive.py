"""The file format of a backup: a ZIP archive that standard tools can read. Pure.

| entry | content |
|---|---|
| backup.json | format, cluster id, time, and size and SHA-256 of the other entries |
| metadata.checkpoint | the metadata in the format of Kafka's snapshots (KIP-630) |
| offsets.json | the committed offsets of each group; start and end of each partition at about the same time |

The metadata contains the keys of SCRAM users: a reader of the backup can try to guess their passwords.
Bounds: an entry has at most `ENTRY_BYTES_MAX` when it is decompressed.
Errors: CorruptFile for an archive that is damaged, or of a later format.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, NamedTuple

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.storage.disk.errors import CorruptFile

FORMAT: Final = 1
ENTRY_BYTES_MAX: Final = 1 << 30
_HEAD: Final = "backup.json"
_METADATA: Final = "metadata.checkpoint"
_OFFSETS: Final = "offsets.json"


class CommittedOffset(NamedTuple):
    """An offset that a group has committed for a partition."""

    offset: Offset
    leader_epoch: LeaderEpoch | None
    metadata: str


class PartitionRange(NamedTuple):
    """The first offset of a partition, and the offset after its last committed record."""

    start_offset: Offset
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterBackup:
    """The metadata of a cluster as of `metadata_offset`, and offsets that were read after it."""

    cluster_id: str
    created_ms: int
    metadata_offset: Offset
    metadata_epoch: LeaderEpoch
    metadata: bytes
    """A snapshot in Kafka's format."""
    groups: Mapping[str, Mapping[TopicPartition, CommittedOffset]] = field(default_factory=dict)
    partitions: Mapping[TopicPartition, PartitionRange] = field(default_factory=dict)


def encode_backup(backup: ClusterBackup) -> bytes:
    """Return the bytes of the archive."""
    entries = {_METADATA: backup.metadata, _OFFSETS: _json(_offsets_document(backup))}
    head = {
        "format": FORMAT,
        "cluster_id": backup.cluster_id,
        "created_ms": backup.created_ms,
        "metadata_offset": backup.metadata_offset,
        "metadata_epoch": backup.metadata_epoch,
        "entries": {
            name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in entries.items()
        },
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in {_HEAD: _json(head), **entries}.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def decode_backup(data: bytes, name: str) -> ClusterBackup:
    """Return the backup in `data`. Raise CorruptFile, which names `name`."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            head = json.loads(_entry(archive, _HEAD))
            if head["format"] != FORMAT:
                raise CorruptFile(name, f"format {head['format']} is unknown, expected {FORMAT}")
            entries = {each: _entry(archive, each) for each in (_METADATA, _OFFSETS)}
        for entry, content in entries.items():
            checksum = hashlib.sha256(content).hexdigest()
            if head["entries"][entry] != {"bytes": len(content), "sha256": checksum}:
                raise CorruptFile(name, f"{entry} does not have the size and the checksum of {_HEAD}")
        offsets = json.loads(entries[_OFFSETS])
        return ClusterBackup(
            cluster_id=str(head["cluster_id"]),
            created_ms=int(head["created_ms"]),
            metadata_offset=int(head["metadata_offset"]),
            metadata_epoch=int(head["metadata_epoch"]),
            metadata=entries[_METADATA],
            groups=_groups(offsets["groups"]),
            partitions=_partitions(offsets["partitions"]),
        )
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise CorruptFile(name, f"it is not a ZIP archive: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFile(name, f"{type(error).__name__}: {error}") from error


def _entry(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as stream:
        content = stream.read(ENTRY_BYTES_MAX + 1)
    if len(content) > ENTRY_BYTES_MAX:
        raise ValueError(f"{name} has more than {ENTRY_BYTES_MAX} bytes")
    return content


def _json(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _offsets_document(backup: ClusterBackup) -> dict[str, Any]:
    return {
        "groups": {
            group: [[*name, *committed] for name, committed in offsets.items()]
            for group, offsets in backup.groups.items()
        },
        "partitions": [[*name, *each] for name, each in backup.partitions.items()],
    }


def _groups(
    document: Mapping[str, Iterable[tuple[str, int, int, int | None, str]]],
) -> dict[str, dict[TopicPartition, CommittedOffset]]:
    return {
        group: {
            TopicPartition(topic, partition): CommittedOffset(offset, epoch, metadata)
            for topic, partition, offset, epoch, metadata in offsets
        }
        for group, offsets in document.items()
    }


def _partitions(document: Iterable[tuple[str, int, int, int]]) -> dict[TopicPartition, PartitionRange]:
    return {
        TopicPartition(topic, partition): PartitionRange(start, end)
        for topic, partition, start, end in document
    }
