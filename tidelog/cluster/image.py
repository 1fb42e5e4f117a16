"""An immutable image of the cluster's metadata at one offset of the metadata log.

Handlers read an image; `tidelog.cluster.delta` replays records to create the next one. Images
share all unchanged parts, so their mappings must never be modified.

Source: org.apache.kafka.image of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.base.dataclass import dataclass
from tidelog.cluster.acls_by_resource import AclsByResource
from tidelog.cluster.replica_directories import MIGRATING, UNASSIGNED
from tidelog.protocol.ids import BrokerId, LeaderEpoch, Offset, ProducerId
from tidelog.protocol.metadata_records.access_control_entry_record import AccessControlEntryRecord
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.metadata_records.register_controller_record import RegisterControllerRecord
from tidelog.protocol.metadata_records.user_scram_credential_record import UserScramCredentialRecord

NO_LEADER: Final[BrokerId] = -1

ConfigResource: TypeAlias = tuple[int, str]
"""The type of a resource with configs (`ResourceType`) and its name; the name "" means all brokers."""

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""The entity of a client quota: (entity type, name) pairs in order of type; a name of None is the default."""

ClientQuotas: TypeAlias = Mapping[QuotaEntity, Mapping[str, float]]
"""The quotas of entities by key."""


class ResourceType(IntEnum):
    """The type of a resource with configs; the numbers of config records and admin requests."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class LeaderRecoveryState(IntEnum):
    """Whether a partition's leader is recovering from an unclean election."""

    RECOVERED = 0
    RECOVERING = 1


class Endpoint(NamedTuple):
    """The address of one listener of a broker; `security_protocol` 0 is PLAINTEXT."""

    host: str
    port: int
    security_protocol: int = 0


class FeatureRange(NamedTuple):
    """The supported levels of a feature, both inclusive."""

    lowest: int
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerImage:
    """A registered broker; `epoch` is the offset of its registration record.

    A fenced broker may not lead partitions and is not reported to clients.
    """

    id: BrokerId
    epoch: int
    incarnation_id: UUID
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, FeatureRange] = field(default_factory=dict)
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    log_dirs: tuple[UUID, ...] = ()
    cordoned_log_dirs: tuple[UUID, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether the broker can lead partitions: neither fenced nor in controlled shutdown."""
        return not self.fenced and not self.in_controlled_shutdown


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """The replicas of a partition, its ISR and its leader; `leader` is -1 if there is none.

    `leader_epoch` increases with every change of leader, `partition_epoch` with every change.
    `directories` are in the order of `replicas`.
    """

    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    leader: BrokerId = NO_LEADER
    leader_epoch: LeaderEpoch = 0
    partition_epoch: int = 0
    directories: tuple[UUID, ...] = ()
    removing_replicas: tuple[BrokerId, ...] = ()
    adding_replicas: tuple[BrokerId, ...] = ()
    eligible_leader_replicas: tuple[BrokerId, ...] = ()
    last_known_elr: tuple[BrokerId, ...] = ()
    leader_recovery_state: int = LeaderRecoveryState.RECOVERED

    def directory_of(self, broker: BrokerId) -> UUID | None:
        """Return the log directory of `broker`'s replica; None without a replica or if it is unknown."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker:
                return directory if directory not in (UNASSIGNED, MIGRATING) else None
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    """A topic and its partitions by index, 0 to partition count - 1."""

    name: str
    id: UUID
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """All metadata up to and including the record at `offset`, which was written in `epoch`.

    Invariant: `acls_by_resource` has the entries of `access_control_entries`.
    """

    cluster_id: str
    offset: Offset = -1
    epoch: LeaderEpoch = -1
    brokers: Mapping[BrokerId, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[BrokerId, RegisterControllerRecord] = field(default_factory=dict)
    topics_by_name: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    next_producer_id: ProducerId = 0
    client_quotas: ClientQuotas = field(default_factory=dict)
    access_control_entries: Mapping[UUID, AccessControlEntryRecord] = field(default_factory=dict)
    acls_by_resource: AclsByResource = field(default_factory=AclsByResource, repr=False, compare=False)
    scram_credentials: Mapping[tuple[str, int], UserScramCredentialRecord] = field(default_factory=dict)
    delegation_tokens: Mapping[str, DelegationTokenRecord] = field(default_factory=dict)

    def topic_configs(self, topic: str) -> Mapping[str, str]:
        """Return the configs of the topic itself, without inherited ones."""
        return self.configs.get((ResourceType.TOPIC, topic), {})

    def broker_configs(self, broker: BrokerId) -> Mapping[str, str]:
        """Return the dynamic configs of one broker."""
        return self.configs.get((ResourceType.BROKER, str(broker)), {})

    def cluster_configs(self) -> Mapping[str, str]:
        """Return the dynamic default configs of all brokers."""
        return self.configs.get((ResourceType.BROKER, ""), {})

    def alive_brokers(self, listener: str) -> list[tuple[BrokerImage, Endpoint]]:
        """Return the unfenced brokers that have `listener`, with its endpoint, in order of broker id."""
        return [
            (broker, broker.endpoints[listener])
            for _, broker in sorted(self.brokers.items())
            if not broker.fenced and listener in broker.endpoints
        ]
