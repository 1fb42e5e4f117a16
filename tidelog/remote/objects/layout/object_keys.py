"""The keys of the objects of a segment.

Source: ObjectKeyFactory of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.protocol.ids import uuid_text
from tidelog.remote.objects.layout.custom_metadata import decode_custom_metadata
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata


@dataclass(frozen=True, slots=True)
class SegmentKeys:
    """The keys of one segment's objects; `path` is their common part after the prefix."""

    prefix: str
    path: str
    masks_prefix: bool = False

    @property
    def log(self) -> str:
        """The key of the log."""
        return f"{self.prefix}{self.path}.log"

    @property
    def indexes(self) -> str:
        """The key of the object that contains the indexes."""
        return f"{self.prefix}{self.path}.indexes"

    @property
    def manifest(self) -> str:
        """The key of the manifest, without which the segment does not exist."""
        return f"{self.prefix}{self.path}.rsm-manifest"

    @property
    def all(self) -> list[str]:
        """All keys in the order of deletion: the manifest first."""
        return [self.manifest, self.indexes, self.log]

    def display_name(self, key: str) -> str:
        """Return `key` as logs and errors may show it (key.prefix.mask)."""
        return f"<prefix>/{key[len(self.prefix) :]}" if self.masks_prefix else key


def main_path(metadata: RemoteLogSegmentMetadata) -> str:
    """Return the common part of a segment's keys, without prefix and suffix."""
    partition = metadata.topic_id_partition
    segment_id = uuid_text(metadata.remote_log_segment_id.id)
    return (
        f"{partition.topic}-{uuid_text(partition.topic_id)}/{partition.partition}"
        f"/{metadata.start_offset:020d}-{segment_id}"
    )


@dataclass(frozen=True, slots=True)
class ObjectKeys:
    """Creates keys from the configured prefix; prefix and path in custom metadata have precedence."""

    prefix: str = ""
    masks_prefix: bool = False

    def new(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        """Return the keys for a segment that is to be written."""
        return SegmentKeys(self.prefix, main_path(metadata), self.masks_prefix)

    def of(self, metadata: RemoteLogSegmentMetadata) -> SegmentKeys:
        """Return the keys of a segment that was written. Errors: DecodeError for damaged custom metadata."""
        keys = self.new(metadata)
        if not metadata.custom_metadata:
            return keys
        recorded = decode_custom_metadata(metadata.custom_metadata)
        return SegmentKeys(
            keys.prefix if recorded.object_prefix is None else recorded.object_prefix,
            keys.path if recorded.object_key is None else recorded.object_key,
            self.masks_prefix,
        )
