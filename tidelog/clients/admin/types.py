"""What an admin client is told and what it tells: typed requests and results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from tidelog.clients.groups.assignors import Assignment, Subscription
from tidelog.clients.metadata.cluster_metadata import PartitionMetadata
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset, TopicPartition
from tidelog.protocol.schema import ZERO_UUID


class ResourceType(IntEnum):
    """What a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class AlterOperation(IntEnum):
    """What to do with one configuration key."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """Where a configuration value comes from."""

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
    """A topic to create; -1 takes the broker's default.

    `replica_assignments`: broker ids per partition, instead of counts.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[BrokerId]] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic that was created (or would be, with `validate_only`)."""

    name: str
    topic_id: UUID = ZERO_UUID
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicListing:
    """One line of the list of topics."""

    name: str
    topic_id: UUID
    is_internal: bool
    partition_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic with all its partitions, in order."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The brokers of the cluster; `fenced` are those of them that may not serve."""

    cluster_id: str | None
    controller_id: BrokerId
    brokers: tuple[BrokerAddress, ...]
    fenced: frozenset[BrokerId] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class ConfigResource:
    """Whose configuration is meant: a topic by name, a broker by id as text."""

    resource_type: ResourceType
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One configuration key with its value and where that comes from; sensitive values are None."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    documentation: str | None = None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source is ConfigSource.DEFAULT


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One change of one key; `value` is None for DELETE."""

    name: str
    value: str | None
    operation: AlterOperation = AlterOperation.SET


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirPartition:
    """One partition's log in a log directory; `size_bytes` on disk."""

    size_bytes: int
    offset_lag: Offset
    is_future: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirDescription:
    """One log directory of one broker; -1 bytes when the broker does not say."""

    path: str
    error: KafkaError | None
    partitions: Mapping[TopicPartition, LogDirPartition]
    total_bytes: int = -1
    usable_bytes: int = -1


class EpochEnd(NamedTuple):
    """The largest leader epoch that is not above the one asked about, and where it ends (exclusive).

    (-1, -1) when the leader does not know; an epoch older than all known ones ends where the oldest starts.
    """

    leader_epoch: LeaderEpoch
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedOffset:
    """An answer of `list_offsets`; offset -1 when no record fits."""

    offset: Offset
    timestamp: int
    leader_epoch: LeaderEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveProducer:
    """An idempotent or transactional producer that a partition remembers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_transaction_start_offset: Offset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One line of the list of groups; state and type are empty when the broker is too old to say."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One member; `subscription` and `assignment` are None for groups that are not of consumers."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    subscription: Subscription | None
    assignment: Assignment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """A classic group with its members; `protocol` is the assignor in use."""

    group_id: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[GroupMember, ...]
    coordinator_id: BrokerId
