"""What the objects of a segment are called.

Source: ObjectKeyFactory of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.protocol.ids import uuid_text
from tidelog.remote.objects.layout.custom_metadata import decode_custom_metadata
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True)
class SegmentKeys:
    """The keys of one segment's objects; `path` is what they share behind the prefix."""

    prefix: str
    path: str
    masks_prefix: bool = False

    @property
    def log(self) -> str:
        """The log file, chunk behind chunk."""
        return f"{self.prefix}{self.path}.log"

    @property
    def indexes(self) -> str:
        """The small files, one behind the other."""
        return f"{self.prefix}{self.path}.indexes"

    @property
    def manifest(self) -> str:
        """What makes the segment exist."""
        return f"{self.prefix}{self.path}.rsm-manifest"

    @property
    def all(self) -> list[str]:
        """Every object, in the order of deletion: without its manifest a segment is gone."""
        return [self.manifest, self.indexes, self.log]

    def shown(self, key: str) -> str:
        """`key` as it may appear in logs and errors (key.prefix.mask)."""
        return f"<prefix>/{key[len(self.prefix) :]}" if self.masks_prefix else key


def main_path(metadata: RemoteLogSegmentMetadata) -> str:
    """What the keys of a segment share, without prefix and suffix."""
    partition = metadata.topic_id_partition
    segment_id = uuid_text(metadata.remote_log_segment_id.id)
    return (
        f"{partition.topic}-{uuid_text(partition.topic_id)}/{partition.partition}"
        f"/{metadata.start_offset:020d}-{segment_id}"
    )


@dataclass(frozen=True, slots=True)
class ObjectKeys:
    """Names objects by the configured prefix; what custom metadata says of prefix and path goes first."""

    prefix: str = ""
    masks_prefix: bool = False

    def new(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        """The keys under which a segment is written."""
        return SegmentKeys(self.prefix, main_path(metadata), self.masks_prefix)

    def of(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        """The keys under which a segment was written; DecodeError for damaged custom metadata."""
        keys = self.new(metadata)
        if not metadata.custom_metadata:
            return keys
        noted = decode_custom_metadata(metadata.custom_metadata)
        return SegmentKeys(
            keys.prefix if noted.object_prefix is None else noted.object_prefix,
            keys.path if noted.object_key is None else noted.object_key,
            self.masks_prefix,
        )
