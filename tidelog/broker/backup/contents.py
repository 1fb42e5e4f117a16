"""The parts of a backup from which a new cluster is restored. Pure.

    first records   features, configs of brokers and groups, quotas, access control entries, SCRAM users, and
                    the next producer id: written when the directories are formatted
    topics          created by `tidelog cluster restore`, after the segments of tiered ones are registered
    offsets         committed by it when the topics exist

Brokers and controllers register themselves, and the topics of coordinators and of the remote metadata are
created by the new cluster. Delegation tokens are not restored: they expire soon.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.broker.backup.archive import ClusterBackup, CommittedOffset
from tidelog.broker.raft.snapshot_format import read_snapshot
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage, ResourceType
from tidelog.cluster.image_records import image_records
from tidelog.cluster.topic_names import is_internal
from tidelog.protocol.ids import LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.schema import MetadataRecord
from tidelog.remote.metadata.config import METADATA_TOPIC

PRODUCER_ID_MARGIN: Final = 1_000_000
"""The ids that may have been allocated after the backup: a thousand blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupTopic:
    """A topic of a backup; `leader_epoch` is the highest of its partitions."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int
    leader_epoch: LeaderEpoch
    configs: Mapping[str, str]

    @property
    def is_tiered(self) -> bool:
        """Whether its segments are in the bucket."""
        return self.configs.get("remote.storage.enable", "").strip().lower() == "true"


def backup_image(backup: ClusterBackup) -> MetadataImage:
    """Return the metadata in `backup`. Errors: CorruptFile, InconsistentMetadata."""
    snapshot = read_snapshot("metadata.checkpoint", backup.metadata)
    delta = MetadataDelta(MetadataImage(cluster_id=backup.cluster_id))
    for batch in snapshot.batches:
        for record in batch:
            delta.replay(record)
    return delta.image(backup.metadata_offset, backup.metadata_epoch)


def first_records(image: MetadataImage) -> Iterator[MetadataRecord]:
    """Return the records with which the directories of the new cluster are formatted."""
    kept = replace(
        image,
        brokers={},
        controllers={},
        topics_by_name={},
        topics_by_id={},
        delegation_tokens={},
        configs={
            resource: configs
            for resource, configs in image.configs.items()
            if resource[0] != ResourceType.TOPIC
        },
        next_producer_id=image.next_producer_id + PRODUCER_ID_MARGIN,
    )
    return image_records(kept)


def backup_topics(image: MetadataImage) -> list[BackupTopic]:
    """Return the topics of users by name."""
    return [
        BackupTopic(
            name=topic.name,
            topic_id=topic.id,
            partitions=len(topic.partitions),
            replication_factor=max(len(each.replicas) for each in topic.partitions.values()),
            leader_epoch=max(each.leader_epoch for each in topic.partitions.values()),
            configs=dict(image.topic_configs(topic.name)),
        )
        for topic in sorted(image.topics_by_name.values(), key=lambda topic: topic.name)
        if not is_internal(topic.name) and topic.name != METADATA_TOPIC
    ]


@dataclass(frozen=True, slots=True)
class RestoredOffset:
    """An offset to commit; `lost` is the one of the backup if it is beyond the end of the restored log."""

    committed: CommittedOffset
    lost: Offset | None = None


def restored_offsets(
    backup: ClusterBackup, ends: Mapping[TopicPartition, Offset]
) -> dict[str, dict[TopicPartition, RestoredOffset]]:
    """Return the offsets of each group for the partitions in `ends`, at most their ends.

    A group that has read lost records continues with the first new one. Its leader epoch is omitted.
    """
    groups: dict[str, dict[TopicPartition, RestoredOffset]] = {}
    for group, offsets in backup.groups.items():
        for name, committed in offsets.items():
            end = ends.get(name)
            if end is None:
                continue
            restored = RestoredOffset(committed)
            if committed.offset > end:
                lost_offset = committed.offset
                restored = RestoredOffset(CommittedOffset(end, None, committed.metadata), lost_offset)
            groups.setdefault(group, {})[name] = restored
    return groups
