"""Inspection of a bucket without a cluster, by its manifests (shell over pure parts).

A manifest describes its segment completely, and the newest segment's leader-epoch checkpoint has the epochs
of the log up to its end. Only brokers know where the log starts and ends, and which segments are being copied
or deleted: for each partition, the offsets from the first to the last segment are inspected.

I/O: blocks. Errors: RemoteStorageError if the store does not respond.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from tidelog.base.clock import SystemClock
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import TopicPartition
from tidelog.remote.inspection.bucket import Bucket, in_threads
from tidelog.remote.inspection.described_segments import events_of, lineage_in, log_start_in
from tidelog.remote.inspection.findings import Finding, Kind
from tidelog.remote.inspection.history import PartitionHistory, RecordPlace
from tidelog.remote.inspection.manifest_metadata import described_segment
from tidelog.remote.inspection.objects import MANIFEST_SUFFIX, ObjectName, parse_key
from tidelog.remote.inspection.views import PartitionOffsets, PartitionView
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG

_SUFFIXES = ("log", "indexes", MANIFEST_SUFFIX)


def offline_views(
    bucket: Bucket, topics: Collection[str], on_segment: Callable[[], None] = lambda: None
) -> tuple[list[PartitionView], list[Finding]]:
    """Return a view of each partition of `topics` in the bucket, and findings about other objects.

    An empty `topics` means all topics.
    """
    names: dict[str, ObjectName] = {}
    found: list[Finding] = []
    for info in bucket.objects():
        name = parse_key(info.key, bucket.prefix)
        if name is None:
            if not topics:
                found.append(Finding(Kind.FOREIGN_OBJECT, None, bucket.display_name(info.key)))
        elif not topics or name.partition.topic in topics:
            names[info.key] = name
    found += _without_manifest(bucket, names)
    manifests = [key for key, name in names.items() if name.suffix == MANIFEST_SUFFIX]
    partitions: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = {}

    def read(key: str) -> RemoteLogSegmentMetadata | Finding:
        try:
            return described_segment(bucket.manifest_bytes(key))
        except DecodeError as error:
            return Finding(Kind.BAD_MANIFEST, names[key].partition.topic_partition, key, str(error))

    for key, read_back in zip(manifests, in_threads(read, manifests), strict=True):
        on_segment()
        if isinstance(read_back, Finding):
            found.append(read_back)
        elif read_back.remote_log_segment_id.id != names[key].segment_id:
            detail = f"it describes {read_back.remote_log_segment_id}"
            found.append(
                Finding(
                    Kind.BAD_MANIFEST, names[key].partition.topic_partition, bucket.display_name(key), detail
                )
            )
        else:
            partitions.setdefault(read_back.topic_id_partition, []).append(read_back)
    ordered = sorted(partitions.items(), key=lambda item: (item[0].topic, item[0]))
    return [_view(bucket, partition, segments) for partition, segments in ordered], found


def _without_manifest(bucket: Bucket, names: dict[str, ObjectName]) -> Iterator[Finding]:
    for key, name in sorted(names.items()):
        base = key.removesuffix(name.suffix)
        if base + MANIFEST_SUFFIX not in names:
            partition: TopicPartition = name.partition.topic_partition
            yield Finding(
                Kind.UNFINISHED_OBJECTS, partition, bucket.display_name(key), segment=name.segment_id
            )


def _view(
    bucket: Bucket, partition: TopicIdPartition, segments: list[RemoteLogSegmentMetadata]
) -> PartitionView:
    history = PartitionHistory.empty(partition)
    for number, event in enumerate(events_of(segments)):
        history.apply(event, RecordPlace(-1, number))
    lineage = lineage_in(bucket, segments)
    # The log start at the copy of the newest segment; segments below it may be partly deleted.
    start = log_start_in(lineage, segments)
    end = 1 + max(segment.end_offset for segment in segments)
    offsets = PartitionOffsets(
        log_start_offset=start,
        local_log_start_offset=end,
        highest_offset_in_remote_storage=end - 1,
        last_stable_offset=end,
        high_watermark=end,
        log_end_offset=end,
        leader_epoch=lineage[-1].epoch,
    )
    config = replace(DEFAULT_LOG_CONFIG, remote_storage_enable=True, retention_ms=-1)
    return PartitionView(
        partition=partition,
        offsets=offsets,
        lineage=lineage,
        history=history,
        config=config,
        now_ms=SystemClock().wall_ms(),
    )
