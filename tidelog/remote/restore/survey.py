"""The topics in a bucket as a restore needs them (shell).

Of each partition: the segments whose objects all exist with the expected sizes, and the leader epochs and
producers that were stored with the newest of them. The bucket is listed twice, because a listing may be older
than the objects.

I/O: blocks; manifests are fetched by a few threads. Errors: RemoteStorageError if the store does not respond.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Final
from uuid import UUID

from tidelog.protocol.ids import TopicPartition
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.inspection.deep import is_damage
from tidelog.remote.inspection.findings import BROKEN_OBJECTS, Finding, Kind, segment_name
from tidelog.remote.inspection.offline import offline_bucket_findings, offline_views
from tidelog.remote.inspection.views import PartitionView
from tidelog.remote.objects.layout.object_keys import MANIFEST_SUFFIX, parse_key
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.reading.auxiliary import AuxiliaryState, fetch_auxiliary
from tidelog.remote.restore.plan import LeftOut, SurveyedPartition
from tidelog.remote.tasks.recovered_log import log_position
from tidelog.storage.disk.errors import CorruptFile
from tidelog.storage.producers.producer_entry import ProducerEntry
from tidelog.storage.producers.producer_snapshot import decode_snapshot

_UNUSABLE: Final = BROKEN_OBJECTS | {Kind.UNFINISHED_OBJECTS}


def survey(
    bucket: Bucket, topics: Collection[str], on_segment: Callable[[], None] = lambda: None
) -> dict[tuple[str, UUID], list[SurveyedPartition]]:
    """Return the partitions of `topics` (empty: of all topics) by name and topic id.

    `on_segment` is called after each manifest that was read.
    """
    views, findings = offline_views(bucket, topics, on_segment)
    surveyed: dict[tuple[str, UUID], list[SurveyedPartition]] = {}
    for view in views:
        found = (*findings, *offline_bucket_findings(bucket, view, findings))
        partition = view.partition
        surveyed.setdefault((partition.topic, partition.topic_id), []).append(
            _surveyed_partition(bucket, view, _unusable(found, partition.topic_partition))
        )
    for (name, topic_id), partitions in surveyed.items():
        numbers = {each.partition.partition for each in partitions}
        without_segments = {
            finding.partition
            for finding in findings
            if finding.partition is not None
            and finding.partition.topic == name
            and finding.partition.partition not in numbers
        }
        for unreadable in without_segments:
            unusable = _unusable(findings, unreadable)
            partitions.append(
                SurveyedPartition(
                    partition=TopicIdPartition(topic_id, *unreadable),
                    segments=(),
                    newest=None,
                    unusable=tuple(_left_out(unusable).values()),
                    is_damaged=_is_damage(unusable),
                )
            )
    read = {segment.remote_log_segment_id.id for view in views for segment in view.segments}
    read |= {finding.segment for finding in findings if finding.segment is not None}
    _add_later_manifests(bucket, topics, read, surveyed)
    return surveyed


def _add_later_manifests(
    bucket: Bucket,
    topics: Collection[str],
    read: Collection[UUID],
    surveyed: dict[tuple[str, UUID], list[SurveyedPartition]],
) -> None:
    """Add the manifests that only a second listing has: the first one was old, or the bucket changes."""
    later: dict[TopicIdPartition, list[str]] = {}
    for info in bucket.objects():
        name = parse_key(info.key, bucket.prefix)
        if name is None or name.suffix != MANIFEST_SUFFIX or name.segment_id in read:
            continue
        if not topics or name.partition.topic in topics:
            later.setdefault(name.partition, []).append(bucket.display_name(info.key))
    for partition, names in later.items():
        partitions = surveyed.setdefault((partition.topic, partition.topic_id), [])
        before = [each for each in partitions if each.partition == partition]
        empty = SurveyedPartition(partition=partition, segments=(), newest=None)
        changed = replace(before[0] if before else empty, later_manifests=tuple(sorted(names)))
        partitions[:] = [each for each in partitions if each.partition != partition] + [changed]


def _unusable(findings: Iterable[Finding], partition: TopicPartition) -> list[Finding]:
    return [each for each in findings if each.kind in _UNUSABLE and each.partition == partition]


def _left_out(findings: Iterable[Finding]) -> dict[UUID | None, LeftOut]:
    """Return one entry for each segment with findings, by segment id."""
    left_out: dict[UUID | None, LeftOut] = {}
    for finding in findings:
        left_out.setdefault(finding.segment, LeftOut(finding.place, finding.kind.meaning))
    return left_out


def _is_damage(findings: Iterable[Finding]) -> bool:
    return any(each.kind in BROKEN_OBJECTS for each in findings)


def _surveyed_partition(bucket: Bucket, view: PartitionView, findings: list[Finding]) -> SurveyedPartition:
    broken = _left_out(findings)
    usable = [segment for segment in view.segments if segment.remote_log_segment_id.id not in broken]
    left_out, is_damaged = list(broken.values()), _is_damage(findings)
    for newest in sorted(usable, key=log_position, reverse=True):
        try:
            auxiliary = fetch_auxiliary(bucket.storage, newest)
            producers = _producers(newest, auxiliary)
        except (RemoteStorageError, CorruptFile) as error:
            if isinstance(error, RemoteStorageError) and not is_damage(error):
                raise
            is_damaged = True
            usable.remove(newest)
            left_out.append(LeftOut(segment_name(newest), f"its small files cannot be read: {error}"))
            continue
        return SurveyedPartition(
            partition=view.partition,
            segments=tuple(usable),
            newest=newest,
            checkpoint=tuple(auxiliary.leader_epochs),
            producers=tuple(producers),
            unusable=tuple(left_out),
            is_damaged=is_damaged,
        )
    return SurveyedPartition(
        partition=view.partition,
        segments=(),
        newest=None,
        unusable=tuple(left_out),
        is_damaged=is_damaged,
    )


def _producers(segment: RemoteLogSegmentMetadata, auxiliary: AuxiliaryState) -> list[ProducerEntry]:
    if auxiliary.producer_snapshot is None:
        return []
    return decode_snapshot(auxiliary.producer_snapshot, f"the producers of {segment.remote_log_segment_id}")
