"""Remote storage as described by the object store alone, without any broker (shell).

A manifest describes its segment completely, and the newest segment's leader-epoch checkpoint has the epochs
of the log up to its end. Only brokers know where the log starts: here it starts where the newest segment's
epochs start, or with the oldest segment.

I/O: blocks; manifests are fetched by a few threads. Bounds: about 1 KiB for each segment.
Errors: RemoteStorageError, also for a damaged manifest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset, TopicPartition, uuid_text
from tidelog.remote.direct.partition_tier import PartitionTier
from tidelog.remote.inspection.bucket import Bucket, in_threads
from tidelog.remote.inspection.described_segments import (
    copy_events,
    fetch_lineage,
    log_start_at_copy,
)
from tidelog.remote.inspection.manifest_metadata import described_segment
from tidelog.remote.metadata.store import PartitionMetadataStore
from tidelog.remote.objects.layout.object_keys import MANIFEST_SUFFIX, ObjectName, parse_key
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import IndexType, RemoteResourceNotFound, RemoteStorageError
from tidelog.remote.ports.streams import read_all
from tidelog.remote.tasks.recovered_log import log_position
from tidelog.storage.disk.errors import CorruptSnapshot
from tidelog.storage.producers.producer_snapshot import decode_snapshot

_SNAPSHOT_BYTES_MAX: Final = 256 << 20


@dataclass(frozen=True, slots=True)
class BucketPartition:
    """One partition: remote storage serves it from `start_offset` to `end_offset` (exclusive)."""

    tier: PartitionTier
    newest: RemoteLogSegmentMetadata
    start_offset: Offset

    @property
    def end_offset(self) -> Offset:
        """The offset after the last record."""
        return self.newest.end_offset + 1


class BucketTier:
    """Remote storage as described by `bucket`, which every call lists; a manifest is read once."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self._segments_by_key: dict[str, RemoteLogSegmentMetadata] = {}

    def topics(self) -> dict[str, set[UUID]]:
        """Return every topic that has segments, with its ids: several if it was deleted and re-created."""
        topic_ids: dict[str, set[UUID]] = {}
        for name in self._manifests(None).values():
            topic_ids.setdefault(name.partition.topic, set()).add(name.partition.topic_id)
        return topic_ids

    def partitions(
        self, topics: Collection[str], topic_ids: Mapping[str, UUID] | None = None
    ) -> dict[TopicPartition, BucketPartition]:
        """Return the partitions of `topics` that have segments.

        Of a topic with several ids, the one in `topic_ids` is used, else the one that was copied last.
        """
        names: dict[str, ObjectName] = {}
        for topic in topics:
            names |= self._of_one_id(topic, self._manifests(topic), (topic_ids or {}).get(topic))
        self._segments_by_key = {
            key: segment for key, segment in self._segments_by_key.items() if key in names
        }
        segments: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = {}
        for segment in self._read(names):
            segments.setdefault(segment.topic_id_partition, []).append(segment)
        store = PartitionMetadataStore()
        return {
            partition.topic_partition: self._partition(store, partition, partition_segments)
            for partition, partition_segments in segments.items()
        }

    def last_stable_offset(self, partition: BucketPartition) -> Offset:
        """Return the start of the first open transaction; aborted transactions are known up to it."""
        newest = partition.newest
        try:
            stream = self.bucket.storage.fetch_index(newest, IndexType.PRODUCER_SNAPSHOT)
            producers = decode_snapshot(
                read_all(stream, _SNAPSHOT_BYTES_MAX), f"the producers of {newest.remote_log_segment_id}"
            )
        except CorruptSnapshot as error:
            raise RemoteStorageError(str(error)) from error
        first_offsets = [producer.transaction_first_offset for producer in producers]
        return min([partition.end_offset, *(offset for offset in first_offsets if offset is not None)])

    # --- private --------------------------------------------------------------------------

    def _manifests(self, topic: str | None) -> dict[str, ObjectName]:
        """Return the manifests of one topic by key; None for all topics."""
        prefix = self.bucket.prefix
        manifests = {}
        for info in self.bucket.objects(prefix if topic is None else f"{prefix}{topic}-"):
            name = parse_key(info.key, prefix)
            if name is not None and name.suffix == MANIFEST_SUFFIX and topic in (None, name.partition.topic):
                manifests[info.key] = name
        return manifests

    def _of_one_id(
        self, topic: str, names: dict[str, ObjectName], requested: UUID | None
    ) -> dict[str, ObjectName]:
        ids = {name.partition.topic_id for name in names.values()}
        if requested is None and len(ids) > 1:
            newest = [max(keys, key=lambda key: names[key].start_offset) for keys in _by_partition(names)]
            copied = self._read({key: names[key] for key in newest})
            requested = max(
                copied, key=lambda segment: segment.event_timestamp_ms
            ).topic_id_partition.topic_id
        elif requested is not None and requested not in ids:
            present = ", ".join(sorted(map(uuid_text, ids))) or "none"
            raise RemoteStorageError(
                f"topic {topic} has no segment with topic id {uuid_text(requested)} in the bucket; "
                f"it has segments with topic ids: {present}"
            )
        return {key: name for key, name in names.items() if requested in (None, name.partition.topic_id)}

    def _read(self, names: Mapping[str, ObjectName]) -> list[RemoteLogSegmentMetadata]:
        """Return the segments that the manifests describe, without those that were deleted meanwhile."""
        new_keys = [key for key in names if key not in self._segments_by_key]
        segments = in_threads(lambda key: self._read_manifest(key, names[key]), new_keys)
        for key, segment in zip(new_keys, segments, strict=True):
            if segment is not None:
                self._segments_by_key[key] = segment
        return [self._segments_by_key[key] for key in names if key in self._segments_by_key]

    def _read_manifest(self, key: str, name: ObjectName) -> RemoteLogSegmentMetadata | None:
        try:
            segment = described_segment(self.bucket.manifest_bytes(key))
        except RemoteResourceNotFound:
            return None
        except DecodeError as error:
            raise RemoteStorageError(f"invalid manifest {self.bucket.display_name(key)}: {error}") from error
        segment_id = segment.remote_log_segment_id
        if (segment_id.id, segment_id.topic_id_partition) != (name.segment_id, name.partition):
            raise RemoteStorageError(
                f"the manifest {self.bucket.display_name(key)} describes another segment: {segment_id}"
            )
        return segment

    def _partition(
        self,
        store: PartitionMetadataStore,
        partition: TopicIdPartition,
        segments: list[RemoteLogSegmentMetadata],
    ) -> BucketPartition:
        store.open(partition)
        store.mark_ready(partition)
        for event in copy_events(segments):
            store.apply(event)
        lineage = fetch_lineage(self.bucket, segments)
        newest, start = max(segments, key=log_position), log_start_at_copy(lineage, segments)
        return BucketPartition(PartitionTier(partition, lineage, store), newest, start)


def _by_partition(names: Mapping[str, ObjectName]) -> Iterable[list[str]]:
    keys_by_partition: dict[TopicIdPartition, list[str]] = {}
    for key, name in names.items():
        keys_by_partition.setdefault(name.partition, []).append(key)
    return keys_by_partition.values()
