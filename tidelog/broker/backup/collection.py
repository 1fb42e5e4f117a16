"""Collects a backup: the metadata image, and the offsets that brokers return (shell).

The metadata comes first, then the committed offsets, then the ends of the partitions: every committed offset
is of a topic that the backup has or that was created later, and is at most the end in the backup.

Errors: KafkaError if a group or a partition does not respond.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.broker.backup.archive import ClusterBackup, CommittedOffset, PartitionRange
from tidelog.broker.raft.snapshot_format import SnapshotHead, snapshot_batches
from tidelog.clients.admin.admin import Admin, OffsetSpec
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.cluster.image_records import image_records
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset, TopicPartition

_PARTITIONS_AT_ONCE: Final = 2_000


def metadata_snapshot(image: MetadataImage, now_ms: int) -> bytes:
    """Return `image` in the format of Kafka's snapshots. Call it in a thread: images may be large."""
    batches = snapshot_batches(image_records(image), SnapshotHead(now_ms), epoch=image.epoch, now_ms=now_ms)
    return b"".join(batches)


async def collect(admin: Admin, image: MetadataImage, metadata: bytes, now_ms: int) -> ClusterBackup:
    """Return a backup of `image`, whose snapshot is `metadata`, with the current offsets of its cluster."""
    groups = {group: await _committed(admin, group) for group in sorted(await admin.list_groups())}
    # A partition without a leader does not respond.
    names = [
        TopicPartition(topic.name, index)
        for topic in image.topics_by_name.values()
        for index, partition in topic.partitions.items()
        if partition.leader != NO_LEADER
    ]
    starts = await _offsets(admin, names, OffsetSpec.EARLIEST)
    ends = await _offsets(admin, names, OffsetSpec.LATEST)
    return ClusterBackup(
        cluster_id=image.cluster_id,
        created_ms=now_ms,
        metadata_offset=image.offset,
        metadata_epoch=image.epoch,
        metadata=metadata,
        groups={group: offsets for group, offsets in groups.items() if offsets},
        partitions={
            name: PartitionRange(start, ends[name]) for name, start in starts.items() if name in ends
        },
    )


async def _committed(admin: Admin, group: str) -> dict[TopicPartition, CommittedOffset]:
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
