"""The segments of a source partition as its bucket shows them (shell).

I/O: blocks; one listing, and one GET for each manifest. Errors: RemoteStorageError.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset, uuid_text
from tidelog.remote.inspection.manifest_metadata import described_segment
from tidelog.remote.objects.layout.manifest import MANIFEST_BYTES_MAX
from tidelog.remote.objects.layout.object_keys import (
    MANIFEST_SUFFIX,
    mount_prefix,
    parse_key,
    partition_prefix,
    reference,
)
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound, RemoteStorageError
from tidelog.storage.config.topic_source import TopicSource

MANIFESTS_MAX: Final = 1_000
"""The number of manifests that one call reads; the next call reads more."""


class Found(NamedTuple):
    """New segments as references, and whether there are more; the ids of known ones that do not exist."""

    segments: tuple[RemoteLogSegmentMetadata, ...]
    has_more: bool
    missing: frozenset[UUID]


class MountListing:
    """Lists one partition of a mounted topic; `store` is that of this cluster, with its mounts."""

    def __init__(self, store: ObjectStore, source: TopicSource, partition: TopicIdPartition) -> None:
        assert source.mount is not None
        self._store = store
        self._mount = source.mount
        self._partition = partition
        self._source = TopicIdPartition(source.topic_id, source.topic, partition.partition)

    def find(self, registered: Collection[UUID], start_offset: Offset | None = None) -> Found:
        """Return the segments that are not `registered`, in the order of offsets.

        With `start_offset`, only segments that begin there or later are listed, which is one request for
        most partitions, and none is reported as missing.

        A registered segment that is not listed is missing only if its manifest cannot be fetched either: a
        listing may be older than the last one.
        """
        prefix = mount_prefix(self._mount)
        listed: dict[UUID, str] = {}
        folder = partition_prefix(prefix, self._source)
        start_after = "" if start_offset is None else f"{folder}{start_offset:020d}"
        for info in self._store.list(folder, start_after):
            name = parse_key(info.key, prefix)
            if name is not None and name.suffix == MANIFEST_SUFFIX:
                listed[name.segment_id] = info.key
        new = sorted(key for segment_id, key in listed.items() if segment_id not in registered)
        segments = [segment for key in new[:MANIFESTS_MAX] if (segment := self._segment(key)) is not None]
        return Found(
            tuple(sorted(segments, key=lambda segment: (segment.start_offset, segment.end_offset))),
            len(new) > MANIFESTS_MAX,
            frozenset(
                segment_id for segment_id in registered if start_offset is None and segment_id not in listed
            ),
        )

    def exists(self, segment: RemoteLogSegmentMetadata) -> bool:
        """Return whether the manifest of a registered segment exists."""
        key = f"{partition_prefix(mount_prefix(self._mount), self._source)}{_file_name(segment)}"
        try:
            self._store.size(key)
        except RemoteResourceNotFound:
            return False
        return True

    def _segment(self, key: str) -> RemoteLogSegmentMetadata | None:
        """Return the segment of a manifest; None if it was deleted after it was listed."""
        try:
            with closing(self._store.get(key)) as stream:
                data = stream.read(MANIFEST_BYTES_MAX + 1)
        except RemoteResourceNotFound:
            return None
        try:
            segment = described_segment(data)
        except DecodeError as error:
            raise RemoteStorageError(f"{key}: {error}") from error
        if segment.topic_id_partition != self._source:
            raise RemoteStorageError(f"{key}: it describes {segment.remote_log_segment_id}")
        return reference(segment, self._partition, self._mount)


def _file_name(segment: RemoteLogSegmentMetadata) -> str:
    segment_id = uuid_text(segment.remote_log_segment_id.id)
    return f"{segment.start_offset:020d}-{segment_id}.{MANIFEST_SUFFIX}"
