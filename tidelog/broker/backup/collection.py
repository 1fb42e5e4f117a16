"""Collects a backup: the metadata image, and the offsets that brokers return (shell).

The metadata comes first, then the committed offsets, then the ends of the partitions: every committed offset
is of a topic that the backup has or that was created later, and is at most the end in the backup.

Groups whose partition of `__consumer_offsets` has no leader, and partitions without a leader, keep the
offsets of the previous backup: the newest backup must not lack what an older one has.

Errors: KafkaError if a broker, a group or a partition does not respond.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from tidelog.broker.backup.archive import ClusterBackup, CommittedOffset, PartitionRange
from tidelog.broker.coordinators.shared.partitioning import partition_for
from tidelog.broker.raft.snapshot_format import SnapshotHead, snapshot_batches
from tidelog.clients.admin.admin import Admin, OffsetSpec
from tidelog.cluster.features import metadata_version
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.cluster.image_records import image_records
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset, TopicPartition

_PARTITIONS_AT_ONCE: Final = 2_000
_SHARE: Final = "share"
"""The type of groups whose offsets are not committed offsets."""


def metadata_snapshot(image: MetadataImage, now_ms: int) -> bytes:
    """Return `image` in the format of Kafka's snapshots, without delegation tokens, which expire soon.

    Call it in a thread: images may be large.
    """
    records = image_records(replace(image, delegation_tokens={}))
    batches = snapshot_batches(
        records,
        SnapshotHead(now_ms),
        epoch=image.epoch,
        now_ms=now_ms,
        metadata_version=metadata_version(image),
    )
    return b"".join(batches)


async def collect(
    admin: Admin, image: MetadataImage, metadata: bytes, now_ms: int, previous: ClusterBackup | None
) -> ClusterBackup:
    """Return a backup of `image`, whose snapshot is `metadata`, with the current offsets of its cluster.

    `previous` is the backup before this one, None if there is none.
    """
    groups: dict[str, Mapping[TopicPartition, CommittedOffset]] = {
        group: await _committed_offsets(admin, group)
        for group, listing in sorted((await admin.list_groups()).items())
        if listing.group_type.lower() != _SHARE
    }
    names = [
        TopicPartition(topic.name, index)
        for topic in image.topics_by_name.values()
        for index, partition in topic.partitions.items()
        if partition.leader != NO_LEADER
    ]
    starts = await _offsets(admin, names, OffsetSpec.EARLIEST)
    ends = await _offsets(admin, names, OffsetSpec.LATEST)
    ranges = {name: PartitionRange(start, ends[name]) for name, start in starts.items() if name in ends}
    if previous is not None:
        groups = {**_unavailable_groups(image, previous), **groups}
        ranges = {**_unavailable_ranges(image, previous), **ranges}
    return ClusterBackup(
        cluster_id=image.cluster_id,
        created_ms=now_ms,
        metadata_offset=image.offset,
        metadata_epoch=image.epoch,
        metadata=metadata,
        groups={group: offsets for group, offsets in groups.items() if offsets},
        partitions=ranges,
    )


def _unavailable_groups(
    image: MetadataImage, previous: ClusterBackup
) -> dict[str, Mapping[TopicPartition, CommittedOffset]]:
    """Return the groups of `previous` that no broker can list now, because their coordinator is missing."""
    topic = image.topics_by_name.get(GROUP_METADATA_TOPIC)
    if topic is None:
        return {}
    count = len(topic.partitions)
    return {
        group: offsets
        for group, offsets in previous.groups.items()
        if topic.partitions[partition_for(group, count)].leader == NO_LEADER
    }


def _unavailable_ranges(
    image: MetadataImage, previous: ClusterBackup
) -> dict[TopicPartition, PartitionRange]:
    """Return the ranges in `previous` of partitions that have no leader now."""
    return {
        name: each
        for name, each in previous.partitions.items()
        if (topic := image.topics_by_name.get(name.topic)) is not None
        and (partition := topic.partitions.get(name.partition)) is not None
        and partition.leader == NO_LEADER
    }


async def _committed_offsets(admin: Admin, group: str) -> dict[TopicPartition, CommittedOffset]:
    offsets = await admin.list_group_offsets(group)
    return {
        name: CommittedOffset(
            each.offset, each.leader_epoch if each.leader_epoch >= 0 else None, each.metadata
        )
        for name, each in sorted(offsets.items())
    }


async def _offsets(
    admin: Admin, names: Iterable[TopicPartition], spec: OffsetSpec
) -> dict[TopicPartition, Offset]:
    """Return one offset of each partition; of a partition that was deleted or lost its leader, none."""
    offsets: dict[TopicPartition, Offset] = {}
    remaining = list(names)
    while remaining:
        some, remaining = remaining[:_PARTITIONS_AT_ONCE], remaining[_PARTITIONS_AT_ONCE:]
        listed = await admin.list_offsets(dict.fromkeys(some, int(spec)))
        offsets.update((name, one.offset) for name, one in listed.items() if not isinstance(one, KafkaError))
    return offsets
