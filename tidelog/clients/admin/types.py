"""The arguments and results of admin calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.clients.admin.streams_topology import StreamsMember, StreamsTopology
from tidelog.clients.groups.assignors import Assignment, Subscription
from tidelog.clients.metadata.cluster_metadata import PartitionMetadata
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.schema import ZERO_UUID


class ResourceType(IntEnum):
    """The kind of resource that has a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterOperation(IntEnum):
    """The change of one configuration key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """The source of a configuration value."""

    UNKNOWN = -1
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class OffsetSpec(IntEnum):
    """Special timestamps of `list_offsets`."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; counts of -1 use the broker's defaults.

    `replica_assignments`: the broker ids of each partition, instead of the counts.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[BrokerId]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic that was created, or can be created (`validate_only`)."""

    name: str
    topic_id: UUID = ZERO_UUID
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """One topic in a listing."""

    name: str
    topic_id: UUID
    is_internal: bool
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with all its partitions in order."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The brokers of the cluster; `fenced` has the ids of the fenced ones."""

    cluster_id: str | None
    controller_id: BrokerId
    brokers: tuple[BrokerAddress, ...]
    fenced: frozenset[BrokerId] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class ConfigResource:
    """A resource with a configuration: a topic by name, a broker by its id as text."""

    resource_type: ResourceType
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One configuration key with its value and source; a sensitive value is None."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether the value is the default."""
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """A change of one key; `value` is None for DELETE."""

    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirPartition:
    """One partition's log in a log directory; `size_bytes` is its size on disk."""

    size_bytes: int
    offset_lag: Offset
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """One log directory of one broker; sizes are -1 if the broker does not return them."""

    path: str
    error: KafkaError | None
    partitions: Mapping[TopicPartition, LogDirPartition]
    total_bytes: int = -1
    usable_bytes: int = -1


class TopicPartitionReplica(NamedTuple):
    """One replica of a partition."""

    topic: str
    partition: int
    broker_id: BrokerId

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition of the replica."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLogDirs:
    """The log directory of a replica, and the one to which it is being moved; None if there is none.

    `future_offset_lag` is how far the copy is behind the replica.
    """

    current_log_dir: str | None = None
    offset_lag: Offset = -1
    future_log_dir: str | None = None
    future_offset_lag: Offset = -1


class EpochEnd(NamedTuple):
    """The largest leader epoch up to the requested one, and its end offset (exclusive).

    (-1, -1) if the leader has no such epoch. An epoch older than all others ends where the oldest one starts.
    """

    leader_epoch: LeaderEpoch
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """A result of `list_offsets`; offset -1 if no record matches."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """An idempotent or transactional producer with state in a partition."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: Offset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group in a listing; state and type are empty if an old broker does not return them."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """A group member; `subscription` and `assignment` are None if it is not a consumer.

    In a consumer group (KIP-848) a member has an epoch, and a target assignment to which it reconciles.
    `subscribed_pattern` is its regular expression. A member of a streams group (KIP-1071) has `streams`.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    subscription: Subscription | None
    assignment: Assignment | None
    member_epoch: int | None = None
    target_assignment: Assignment | None = None
    subscribed_pattern: str | None = None
    uses_classic_protocol: bool = True
    streams: StreamsMember | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePartitionOffset:
    """From where a share group reads a partition; `lag` is the number of records it has not completed.

    Both are -1 if they are unknown.
    """

    start_offset: Offset
    leader_epoch: LeaderEpoch
    lag: int


class ConsumerGroupEpochs(NamedTuple):
    """The epoch of a consumer group or share group, and the epoch of its target assignment."""

    group_epoch: int
    assignment_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A group with its members; `protocol` is the chosen assignor.

    `group_type` is "classic", "consumer", "share" or "streams"; groups of the last three types have `epochs`.
    `topology` is that of a streams group.
    """

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]
    coordinator_id: BrokerId
    group_type: str = "classic"
    epochs: ConsumerGroupEpochs | None = None
    topology: StreamsTopology | None = None
