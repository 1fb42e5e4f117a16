"""Inspection of a bucket without a cluster, by its manifests (shell over pure parts).

A manifest describes its segment completely, and the newest segment's leader-epoch checkpoint has the epochs
of the log up to its end. Only brokers know where the log starts and ends, and which segments are being copied
or deleted: for each partition, the offsets from the first to the last segment are inspected.

I/O: blocks. Errors: RemoteStorageError if the store does not respond.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from tidelog.base.clock import SystemClock
from tidelog.protocol.errors import DecodeError
from tidelog.remote.inspection.bucket import Bucket, in_threads
from tidelog.remote.inspection.described_segments import copy_events, fetch_lineage, log_start_at_copy
from tidelog.remote.inspection.findings import Finding, Kind
from tidelog.remote.inspection.history import PartitionHistory, RecordPlace
from tidelog.remote.inspection.manifest_metadata import described_segment
from tidelog.remote.inspection.views import PartitionOffsets, PartitionView
from tidelog.remote.objects.layout.object_keys import MANIFEST_SUFFIX, ObjectName, parse_key
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from tidelog.remote.ports.storage_manager import RemoteResourceNotFound
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG


def offline_views(
    bucket: Bucket, topics: Collection[str], on_segment: Callable[[], None] = lambda: None
) -> tuple[list[PartitionView], list[Finding]]:
    """Return a view of each partition of `topics` in the bucket, and findings about other objects.

    An empty `topics` means all topics. `on_segment` is called after each manifest that was read.
    """
    names, findings = _list_objects(bucket, topics)
    findings += _objects_without_manifest(bucket, names)
    manifests = {key: name for key, name in names.items() if name.suffix == MANIFEST_SUFFIX}
    partitions: dict[TopicIdPartition, list[RemoteLogSegmentMetadata]] = {}
    for result in in_threads(lambda item: _read_manifest(bucket, *item), manifests.items()):
        on_segment()
        if isinstance(result, Finding):
            findings.append(result)
        else:
            partitions.setdefault(result.topic_id_partition, []).append(result)
    ordered = sorted(partitions.items(), key=lambda item: (item[0].topic, item[0]))
    return [_view(bucket, partition, segments) for partition, segments in ordered], findings


def offline_bucket_findings(
    bucket: Bucket,
    view: PartitionView,
    reported: Iterable[Finding],
    on_segment: Callable[[], None] = lambda: None,
) -> list[Finding]:
    """Return findings about the objects of a partition, without those of segments and keys in `reported`.

    `view` and `reported` are from `offline_views`. A segment without a valid manifest is not in the view: its
    objects would be reported a second time, as orphans.
    """
    findings = bucket.findings(view, bucket.sizes(view.partition), on_segment)
    segments = {finding.segment for finding in reported if finding.segment is not None}
    places = {finding.place for finding in reported}
    return [
        finding for finding in findings if finding.segment not in segments and finding.place not in places
    ]


def _list_objects(bucket: Bucket, topics: Collection[str]) -> tuple[dict[str, ObjectName], list[Finding]]:
    """Return the objects of segments of `topics` by key, and findings about objects with other names."""
    names: dict[str, ObjectName] = {}
    findings: list[Finding] = []
    for info in bucket.objects():
        name = parse_key(info.key, bucket.prefix)
        if name is None:
            if not topics:
                findings.append(Finding(Kind.FOREIGN_OBJECT, None, bucket.display_name(info.key)))
        elif not topics or name.partition.topic in topics:
            names[info.key] = name
    return names, findings


def _objects_without_manifest(bucket: Bucket, names: Mapping[str, ObjectName]) -> Iterator[Finding]:
    for key, name in sorted(names.items()):
        if key.removesuffix(name.suffix) + MANIFEST_SUFFIX not in names:
            place = bucket.display_name(key)
            yield Finding(
                Kind.UNFINISHED_OBJECTS, name.partition.topic_partition, place, segment=name.segment_id
            )


def _read_manifest(bucket: Bucket, key: str, name: ObjectName) -> RemoteLogSegmentMetadata | Finding:
    """Return the segment that the manifest describes, or a finding if the manifest is invalid."""
    try:
        segment = described_segment(bucket.manifest_bytes(key))
    except RemoteResourceNotFound:
        place, partition = bucket.display_name(key), name.partition.topic_partition
        return Finding(Kind.MISSING_OBJECT, partition, place, "it was only in the listing", name.segment_id)
    except DecodeError as error:
        return _invalid_manifest(bucket, key, name, str(error))
    if segment.remote_log_segment_id.id != name.segment_id:
        detail = f"it describes {segment.remote_log_segment_id}"
        return _invalid_manifest(bucket, key, name, detail)
    return segment


def _invalid_manifest(bucket: Bucket, key: str, name: ObjectName, detail: str) -> Finding:
    place = bucket.display_name(key)
    return Finding(Kind.BAD_MANIFEST, name.partition.topic_partition, place, detail, name.segment_id)


def _view(
    bucket: Bucket, partition: TopicIdPartition, segments: list[RemoteLogSegmentMetadata]
) -> PartitionView:
    history = PartitionHistory.empty(partition)
    for number, event in enumerate(copy_events(segments)):
        history.apply(event, RecordPlace(-1, number))
    lineage = fetch_lineage(bucket, segments)
    start = log_start_at_copy(lineage, segments)
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
