"""A client's metadata of the cluster: brokers, and the partitions of topics with leaders and epochs.

Pure. A leader epoch never decreases: a response with older metadata must not replace newer metadata, unless
the topic was deleted and re-created (another topic id).

Source: Metadata.json; KIP-320 (leader epochs), KIP-516 (topic ids), KIP-951 (leader hints).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import NO_LEADER_EPOCH, BrokerId, LeaderEpoch, TopicPartition
from tidelog.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tidelog.protocol.schema import ZERO_UUID

NO_LEADER: BrokerId = -1


class PartitionMetadata(NamedTuple):
    """One partition; `leader` is -1 if it has none, `leader_epoch` -1 if an old broker omits it."""

    partition: int
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    in_sync_replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]
    error_code: int

    @classmethod
    def of(cls, received: MetadataResponsePartition) -> PartitionMetadata:
        """Return the metadata of a partition in a response."""
        return cls(
            received.partition_index,
            received.leader_id,
            received.leader_epoch,
            received.replica_nodes,
            received.isr_nodes,
            received.offline_replicas,
            received.error_code,
        )


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """One topic; `partitions` by partition number; `available` has the numbers of those with a leader."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]
    available: tuple[int, ...]

    @property
    def partition_count(self) -> int:
        """The number of partitions."""
        return len(self.partitions)


@dataclass(slots=True)
class ClusterMetadata:
    """The client's metadata of the cluster; `is_whole`: the latest response had every topic."""

    cluster_id: str | None = None
    controller_id: BrokerId = -1
    brokers: dict[BrokerId, BrokerAddress] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    topic_errors: dict[str, int] = field(default_factory=dict)

    is_whole: bool = False
    _names: dict[UUID, str] = field(default_factory=dict)

    def apply(self, response: MetadataResponse, *, full: bool) -> None:
        """Apply a response; `full`: it has every topic of the cluster, so other topics are removed."""
        self.cluster_id = response.cluster_id or self.cluster_id
        self.controller_id = response.controller_id
        if response.brokers:
            self.brokers = {
                broker.node_id: BrokerAddress(broker.node_id, broker.host, broker.port, broker.rack)
                for broker in response.brokers
            }
        self.is_whole = full
        if full:
            existing = {topic.name for topic in response.topics}
            for name in [name for name in self.topics if name not in existing]:
                self.forget(name)
            self.topic_errors.clear()
        for topic in response.topics:
            self._apply_topic(topic)

    def forget(self, name: str) -> None:
        """Remove a topic that is not used any more or does not exist."""
        topic = self.topics.pop(name, None)
        if topic is not None:
            self._names.pop(topic.topic_id, None)

    def partition(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """Return the metadata of a partition; None if it is unknown."""
        topic = self.topics.get(topic_partition.topic)
        return None if topic is None else topic.partitions.get(topic_partition.partition)

    def leader(self, topic_partition: TopicPartition) -> BrokerId | None:
        """Return the leader's broker id; None if the leader or its address is unknown."""
        partition = self.partition(topic_partition)
        if partition is None or partition.leader not in self.brokers:
            return None
        return partition.leader

    def racks(self, topics: Iterable[str]) -> dict[TopicPartition, frozenset[str]]:
        """Return the racks of each partition's replicas, without brokers that have no rack or are unknown."""
        return {
            TopicPartition(name, number): frozenset(
                broker.rack
                for node_id in partition.replicas
                if (broker := self.brokers.get(node_id)) is not None and broker.rack is not None
            )
            for name in topics
            if name in self.topics
            for number, partition in self.topics[name].partitions.items()
        }

    def leader_epoch(self, topic_partition: TopicPartition) -> LeaderEpoch:
        """Return the latest leader epoch; -1 if unknown."""
        partition = self.partition(topic_partition)
        return NO_LEADER_EPOCH if partition is None else partition.leader_epoch

    def topic_id(self, name: str) -> UUID:
        """Return the topic's id; all zeros if unknown."""
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def topic_name(self, topic_id: UUID) -> str | None:
        """Return the name of the topic with this id; None if unknown."""
        return self._names.get(topic_id)

    def update_leader(
        self,
        topic_partition: TopicPartition,
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        endpoints: Iterable[BrokerAddress] = (),
    ) -> bool:
        """Apply the leader in a Produce or Fetch response (KIP-951); return whether it is newer."""
        for endpoint in endpoints:
            self.brokers[endpoint.node_id] = endpoint
        known = self.partition(topic_partition)
        if known is None or leader not in self.brokers or leader_epoch <= known.leader_epoch:
            return False
        topic = self.topics[topic_partition.topic]
        partitions = dict(topic.partitions)
        partitions[topic_partition.partition] = known._replace(leader=leader, leader_epoch=leader_epoch)
        self.topics[topic.name] = replace(topic, partitions=partitions, available=_available(partitions))
        return True

    def _apply_topic(self, received: MetadataResponseTopic) -> None:
        name = received.name
        if name is None:
            return
        if received.error_code in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE) and received.partitions:
            self.topic_errors.pop(name, None)
        else:
            self.topic_errors[name] = received.error_code
            if received.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self.forget(name)
            return
        before = self.topics.get(name)
        same_topic = before is not None and (
            before.topic_id == received.topic_id or ZERO_UUID in (before.topic_id, received.topic_id)
        )
        old = before.partitions if before is not None and same_topic else {}
        partitions = {
            entry.partition_index: _newer(old.get(entry.partition_index), entry)
            for entry in sorted(received.partitions, key=lambda entry: entry.partition_index)
        }
        if before is not None:
            self._names.pop(before.topic_id, None)
        self.topics[name] = TopicMetadata(
            name, received.topic_id, received.is_internal, partitions, _available(partitions)
        )
        if received.topic_id != ZERO_UUID:
            self._names[received.topic_id] = name


def _available(partitions: Mapping[int, PartitionMetadata]) -> tuple[int, ...]:
    return tuple(number for number, partition in partitions.items() if partition.leader >= 0)


def _newer(known: PartitionMetadata | None, received: MetadataResponsePartition) -> PartitionMetadata:
    """Return the partition of the response, or `known` if the response is older."""
    if known is not None and 0 <= received.leader_epoch < known.leader_epoch:
        return known
    return PartitionMetadata.of(received)


def partitions_by_topic(topic_partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partition numbers by topic; both keep the order of `topic_partitions`."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in topic_partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped
