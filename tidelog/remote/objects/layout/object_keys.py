"""The keys of the objects of a segment.

Source: ObjectKeyFactory of Aiven's RemoteStorageManager.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.ids import Offset, uuid_from_text, uuid_text
from tidelog.remote.objects.layout.custom_metadata import (
    CustomMetadata,
    decode_custom_metadata,
    encode_custom_metadata,
)
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)

LOG_SUFFIX: Final = "log"
INDEXES_SUFFIX: Final = "indexes"
MANIFEST_SUFFIX: Final = "rsm-manifest"
MOUNT_SCHEME: Final = "mount://"
"""The start of the keys of objects that are in the bucket of another cluster."""
BACKUPS_FOLDER: Final = "tidelog-backups"
"""The folder below the prefix with the backups of clusters, which belong to no topic."""

_ID: Final = r"[A-Za-z0-9_-]{22}"
_KEY: Final = re.compile(
    rf"(?P<topic>.+)-(?P<topic_id>{_ID})/(?P<partition>\d+)/(?P<offset>\d{{20}})-(?P<segment_id>{_ID})"
    rf"\.(?P<suffix>{LOG_SUFFIX}|{INDEXES_SUFFIX}|{MANIFEST_SUFFIX})"
)


def mount_prefix(name: str) -> str:
    """Return the common start of the keys of a mount."""
    return f"{MOUNT_SCHEME}{name}/"


@dataclass(frozen=True, slots=True)
class SegmentKeys:
    """The keys of one segment's objects; `path` is their common part after the prefix."""

    prefix: str
    path: str
    masks_prefix: bool = False

    @property
    def log(self) -> str:
        """The key of the log."""
        return f"{self.prefix}{self.path}.{LOG_SUFFIX}"

    @property
    def indexes(self) -> str:
        """The key of the object that contains the indexes."""
        return f"{self.prefix}{self.path}.{INDEXES_SUFFIX}"

    @property
    def manifest(self) -> str:
        """The key of the manifest, without which the segment does not exist."""
        return f"{self.prefix}{self.path}.{MANIFEST_SUFFIX}"

    @property
    def all(self) -> list[str]:
        """All keys in the order of deletion: the manifest first."""
        return [self.manifest, self.indexes, self.log]

    def display_name(self, key: str) -> str:
        """Return `key` as logs and errors may show it (key.prefix.mask)."""
        return f"<prefix>/{key[len(self.prefix) :]}" if self.masks_prefix else key


def main_path(metadata: RemoteLogSegmentMetadata) -> str:
    """Return the common part of a segment's keys, without prefix and suffix."""
    segment_id = uuid_text(metadata.remote_log_segment_id.id)
    return f"{partition_prefix('', metadata.topic_id_partition)}{metadata.start_offset:020d}-{segment_id}"


def partition_prefix(prefix: str, partition: TopicIdPartition) -> str:
    """Return the common start of the keys of a partition's objects; `prefix` is the configured prefix."""
    return f"{prefix}{partition.topic}-{uuid_text(partition.topic_id)}/{partition.partition}/"


class ObjectName(NamedTuple):
    """The parts of the key of a segment's object; `suffix` is one of the suffixes above, without a dot."""

    partition: TopicIdPartition
    start_offset: Offset
    segment_id: UUID
    suffix: str


def parse_key(key: str, prefix: str) -> ObjectName | None:
    """Return the parts of `key`; None if it is not the key of a segment's object below `prefix`."""
    if not key.startswith(prefix):
        return None
    match = _KEY.fullmatch(key, len(prefix))
    if match is None:
        return None
    topic_id, number = uuid_from_text(match["topic_id"]), int(match["partition"])
    partition = TopicIdPartition(topic_id, match["topic"], number)
    return ObjectName(partition, int(match["offset"]), uuid_from_text(match["segment_id"]), match["suffix"])


def reference(
    segment: RemoteLogSegmentMetadata, partition: TopicIdPartition, mount: str | None = None
) -> RemoteLogSegmentMetadata:
    """Return the segment of `partition` that refers to the objects of `segment`."""
    custom_metadata = CustomMetadata(source_path=main_path(segment), mount=mount)
    return replace(
        segment,
        remote_log_segment_id=RemoteLogSegmentId(partition, segment.remote_log_segment_id.id),
        custom_metadata=encode_custom_metadata(custom_metadata),
    )


def is_reference(metadata: RemoteLogSegmentMetadata) -> bool:
    """Return whether the objects of a segment belong to another topic: they must not be deleted.

    Errors: DecodeError for damaged custom metadata.
    """
    data = metadata.custom_metadata
    return bool(data) and decode_custom_metadata(data or b"").source_path is not None


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
        custom_metadata = decode_custom_metadata(metadata.custom_metadata)
        if custom_metadata.source_path is not None:
            mount = custom_metadata.mount
            prefix = keys.prefix if mount is None else mount_prefix(mount)
            return SegmentKeys(prefix, custom_metadata.source_path, self.masks_prefix and mount is None)
        return SegmentKeys(
            keys.prefix if custom_metadata.object_prefix is None else custom_metadata.object_prefix,
            keys.path if custom_metadata.object_key is None else custom_metadata.object_key,
            self.masks_prefix,
        )
