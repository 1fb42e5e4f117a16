"""`tidelog topic describe`: partitions with leaders, offsets, sizes, replication lag and tier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tidelog.base.dataclass import dataclass
from tidelog.cli.admin import succeeded
from tidelog.cli.output import numbers_text, print_table, size_text
from tidelog.clients.admin.admin import (
    Admin,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ListedOffset,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from tidelog.clients.metadata.cluster_metadata import PartitionMetadata
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId, Offset, TopicPartition, uuid_text

TIERED_KEY = "remote.storage.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A replica's log: its size on disk, and how many offsets it is behind the leader."""

    broker: BrokerId
    size_bytes: int
    lag: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """The offsets of one partition; None if the leader did not return it.

    `tier_end_offset` is exclusive: the offset after the last record in remote storage.
    """

    log_start_offset: Offset | None = None
    log_end_offset: Offset | None = None
    local_log_start_offset: Offset | None = None
    tier_end_offset: Offset | None = None

    @property
    def not_in_tier(self) -> Offset | None:
        """The number of offsets that are not in the tier yet; the active segment is never copied."""
        if self.log_end_offset is None or self.tier_end_offset is None:
            return None
        return max(0, self.log_end_offset - max(self.tier_end_offset, self.log_start_offset or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTopic:
    """A topic with everything that `describe` shows, by partition number."""

    topic: TopicDescription
    configs: tuple[ConfigEntry, ...]
    offsets: Mapping[int, Offsets]
    replicas: Mapping[int, tuple[Replica, ...]] = field(default_factory=dict)

    @property
    def is_tiered(self) -> bool:
        """Whether tiered storage is enabled."""
        return any(entry.name == TIERED_KEY and entry.value == "true" for entry in self.configs)

    def size_bytes(self, partition: PartitionMetadata) -> int | None:
        """Return the size of the leader's log on disk; None if it is unknown."""
        replicas = {replica.broker: replica for replica in self.replicas.get(partition.partition, ())}
        leader = replicas.get(partition.leader)
        return None if leader is None else leader.size_bytes

    def lag(self, partition: PartitionMetadata) -> int | None:
        """Return the lag of the replica that is furthest behind; None if no size is known."""
        return max((each.lag for each in self.replicas.get(partition.partition, ())), default=None)


async def describe_topics(admin: Admin, names: list[str]) -> list[DescribedTopic]:
    """Return the topics that exist; print an error for each of the others."""
    topics = succeeded(await admin.describe_topics(names))
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    configs = succeeded(await admin.describe_configs(resources)) if resources else {}
    described = []
    for name, topic in topics.items():
        entries = configs.get(ConfigResource(ResourceType.TOPIC, name), {}).values()
        own = tuple(entry for entry in entries if entry.source is ConfigSource.TOPIC)
        partitions = [TopicPartition(name, entry.partition) for entry in topic.partitions]
        is_tiered = any(entry.name == TIERED_KEY and entry.value == "true" for entry in entries)
        described.append(
            DescribedTopic(
                topic=topic,
                configs=own,
                offsets=await _offsets(admin, partitions, is_tiered),
                replicas=await _replicas(admin, partitions),
            )
        )
    return described


async def _offsets(admin: Admin, partitions: list[TopicPartition], is_tiered: bool) -> dict[int, Offsets]:
    """Return the offsets by partition number. A partition without a leader has none."""

    async def listed(spec: OffsetSpec) -> dict[int, Offset]:
        results = await admin.list_offsets(dict.fromkeys(partitions, spec))
        return {
            each.partition: result.offset
            for each, result in results.items()
            if isinstance(result, ListedOffset)
        }

    starts, ends = await listed(OffsetSpec.EARLIEST), await listed(OffsetSpec.LATEST)
    local_starts = await listed(OffsetSpec.EARLIEST_LOCAL) if is_tiered else {}
    last_tiered = await listed(OffsetSpec.LATEST_TIERED) if is_tiered else {}
    return {
        number: Offsets(
            log_start_offset=starts.get(number),
            log_end_offset=ends.get(number),
            local_log_start_offset=local_starts.get(number),
            # The response has the last offset in the tier, or -1.
            tier_end_offset=last_tiered[number] + 1 if number in last_tiered else None,
        )
        for _, number in partitions
    }


async def _replicas(admin: Admin, partitions: list[TopicPartition]) -> dict[int, tuple[Replica, ...]]:
    """Return the replicas by partition number; without those of brokers that do not return sizes."""
    replicas: dict[int, tuple[Replica, ...]] = {}
    for broker, directories in (await admin.describe_log_dirs(partitions=partitions)).items():
        if isinstance(directories, KafkaError):
            continue
        for directory in directories.values():
            for (_, number), log in directory.partitions.items():
                if not log.is_future:
                    found = Replica(broker=broker, size_bytes=log.size_bytes, lag=log.offset_lag)
                    replicas[number] = (*replicas.get(number, ()), found)
    return replicas


def print_topic(described: DescribedTopic) -> None:
    """Print the topic, its settings and a table of its partitions."""
    topic = described.topic
    replicas = max((len(entry.replicas) for entry in topic.partitions), default=0)
    print(f"topic        {topic.name}")
    print(f"id           {uuid_text(topic.topic_id)}")
    print(f"partitions   {len(topic.partitions)}")
    print(f"replication  {replicas}")
    for entry in described.configs:
        print(f"config       {entry.name}={entry.value}")
    print()
    columns = ("partition", "leader", "epoch", "replicas", "in sync", "start", "end", "size", "lag")
    print_table(columns, [_row(described, partition) for partition in topic.partitions])
    if described.is_tiered:
        print()
        print_table(
            ("partition", "start", "local start", "tier end", "end", "not in tier"),
            [_tier_row(entry.partition, described.offsets[entry.partition]) for entry in topic.partitions],
        )


def _row(described: DescribedTopic, partition: PartitionMetadata) -> tuple[object, ...]:
    offsets = described.offsets[partition.partition]
    return (
        partition.partition,
        None if partition.leader < 0 else partition.leader,
        partition.leader_epoch,
        numbers_text(partition.replicas),
        numbers_text(partition.in_sync_replicas),
        offsets.log_start_offset,
        offsets.log_end_offset,
        size_text(described.size_bytes(partition)),
        described.lag(partition),
    )


def _tier_row(partition: int, offsets: Offsets) -> tuple[object, ...]:
    return (
        partition,
        offsets.log_start_offset,
        offsets.local_log_start_offset,
        offsets.tier_end_offset,
        offsets.log_end_offset,
        offsets.not_in_tier,
    )


def topic_document(described: DescribedTopic) -> dict[str, object]:
    """Return the topic for JSON."""
    topic = described.topic
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "configs": {entry.name: entry.value for entry in described.configs},
        "partitions": [
            {
                "partition": entry.partition,
                "leader": entry.leader,
                "leader_epoch": entry.leader_epoch,
                "replicas": entry.replicas,
                "in_sync_replicas": entry.in_sync_replicas,
                "offline_replicas": entry.offline_replicas,
                "log_start_offset": described.offsets[entry.partition].log_start_offset,
                "log_end_offset": described.offsets[entry.partition].log_end_offset,
                "local_log_start_offset": described.offsets[entry.partition].local_log_start_offset,
                "tier_end_offset": described.offsets[entry.partition].tier_end_offset,
                "logs": described.replicas.get(entry.partition, ()),
            }
            for entry in topic.partitions
        ],
    }
