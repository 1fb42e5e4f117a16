"""The offsets in a backup: all groups that commit offsets, and what brokers do not report at the moment."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tests.support.backup import BACKUP
from tests.support.metadata.images import image_after_records, image_with_brokers
from tests.support.metadata.topic_records import topic_records
from tidelog.broker.backup.archive import CommittedOffset, PartitionRange
from tidelog.broker.backup.collection import collect
from tidelog.broker.coordinators.shared.partitioning import partition_for
from tidelog.clients.admin.types import GroupListing, ListedOffset
from tidelog.clients.groups.group_offsets import OffsetAndMetadata
from tidelog.cluster.image import NO_LEADER, MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord

TIDES = TopicPartition("tides", 0)
OFFSET_PARTITIONS = 4
IMAGE = image_after_records(
    [*topic_records("tides", 1, 4), *topic_records("__consumer_offsets", 2, *range(OFFSET_PARTITIONS))],
    image_with_brokers(1, 2),
)


@dataclass
class Brokers:
    """The responses of brokers: types of groups, their offsets, and the end of each partition."""

    groups: dict[str, str] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)

    async def list_groups(self) -> dict[str, GroupListing]:
        return {
            name: GroupListing(group_id=name, protocol_type="", state="Empty", group_type=group_type)
            for name, group_type in self.groups.items()
        }

    async def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        if self.groups[group] == "Share":
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "not a consumer group")
        return {TIDES: OffsetAndMetadata(50)}

    async def list_offsets(
        self, specs: dict[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | KafkaError]:
        unknown = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "unknown")
        listed = {
            name: ListedOffset(offset=offset, timestamp=-1, leader_epoch=-1)
            for name, offset in self.ends.items()
        }
        return {name: listed.get(name, unknown) for name in specs}


def without_leader(topic: str, partition: int) -> MetadataImage:
    change = PartitionChangeRecord(
        partition_id=partition, topic_id=IMAGE.topics_by_name[topic].id, leader=NO_LEADER
    )
    return image_after_records([change], IMAGE)


async def test_a_share_group_does_not_prevent_a_backup_of_the_others() -> None:
    brokers = Brokers({"classic": "Classic", "new": "Consumer", "shared": "Share"}, {TIDES: 60})
    backup = await collect(brokers, IMAGE, b"m", 7, None)  # type: ignore[arg-type]
    assert sorted(backup.groups) == ["classic", "new"]
    assert backup.partitions == {TIDES: PartitionRange(60, 60)}


async def test_groups_without_a_coordinator_keep_the_offsets_of_the_previous_backup() -> None:
    lost = partition_for("harbour", OFFSET_PARTITIONS)
    previous = replace(BACKUP, groups={"harbour": {TIDES: CommittedOffset(40, None, "")}})
    image = without_leader("__consumer_offsets", lost)
    backup = await collect(Brokers(), image, b"m", 7, previous)  # type: ignore[arg-type]
    assert backup.groups == previous.groups
    with_coordinator = await collect(Brokers(), IMAGE, b"m", 7, previous)  # type: ignore[arg-type]
    assert not with_coordinator.groups


async def test_a_partition_without_a_leader_keeps_its_range_of_the_previous_backup() -> None:
    previous = replace(BACKUP, partitions={TIDES: PartitionRange(5, 900)})
    backup = await collect(Brokers(), without_leader("tides", 0), b"m", 7, previous)  # type: ignore[arg-type]
    assert backup.partitions == {TIDES: PartitionRange(5, 900)}
