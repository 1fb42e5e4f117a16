"""The group, transaction and share coordinators of a node, with the internal topics of their state."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.base.randomness import Randomness, new_uuid
from tidelog.broker.channels.broker_channel import BrokerChannel
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.projection import projection
from tidelog.broker.coordinators.coordinator_logs import StateTopic, TopicStateLog
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.consumer.config import ConsumerGroupConfig
from tidelog.broker.coordinators.groups.end_offsets import EndOffsets
from tidelog.broker.coordinators.groups.ports import GroupPorts
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.groups.share.config import ShareGroupConfig
from tidelog.broker.coordinators.groups.streams.config import StreamsGroupConfig
from tidelog.broker.coordinators.share.config import ShareCoordinatorConfig
from tidelog.broker.coordinators.share.coordinator_persister import CoordinatorPersister, PersisterPorts
from tidelog.broker.coordinators.share.service import ShareCoordinatorPorts, ShareCoordinatorService
from tidelog.broker.coordinators.shared.timer import Timer
from tidelog.broker.coordinators.transactions.config import TransactionConfig
from tidelog.broker.coordinators.transactions.marker_sender import MarkerSender
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.broker.coordinators.transactions.service import TransactionPorts, TransactionService
from tidelog.broker.metadata.producer_ids import ProducerIds
from tidelog.broker.metadata.topic_creation import TopicCreation
from tidelog.broker.partitions.leadership_lease import LeadershipLease
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.scheduling.slices import Slices
from tidelog.cluster.features import TRANSACTION_VERSION, share_groups_enabled
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.topic_names import GROUP_METADATA_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.compression import Compression
from tidelog.protocol.ids import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

SettingsT = TypeVar("SettingsT", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorPorts:
    """The ports of the coordinators to the node.

    `current_config` includes dynamic configs. `brokers` sends markers, and `share_state_brokers` the states
    of share partitions.
    """

    replicas: ReplicaManager
    image: Callable[[], MetadataImage]
    current_config: Callable[[], BrokerConfig]
    fetch_purgatory: Purgatory
    timers: Timer
    clock: Clock
    randomness: Randomness
    lease: LeadershipLease
    brokers: BrokerChannel
    share_state_brokers: BrokerChannel
    topic_creation: TopicCreation
    producer_ids: ProducerIds
    slices: Slices


class Coordinators:
    """Owns the coordinators: `start`, then `stop`, each once."""

    def __init__(self, config: BrokerConfig, ports: CoordinatorPorts) -> None:
        self._ports = ports
        self.share = self._create_share_coordinator(projection(config, ShareCoordinatorConfig))
        self.share_persister = CoordinatorPersister(
            PersisterPorts(
                brokers=ports.share_state_brokers,
                image=ports.image,
                partition_for=self.share.partition_for,
                create_topic=lambda: ports.topic_creation.ensure(SHARE_GROUP_STATE_TOPIC),
                clock=ports.clock,
                slices=ports.slices,
            )
        )

        self.group_config = projection(config, GroupConfig)
        offsets_log = self._state_log(_offsets_topic(self.group_config))
        self.groups = GroupService(
            self.group_config,
            GroupPorts(
                log=offsets_log,
                timer=ports.timers,
                clock=ports.clock,
                slices=ports.slices,
                image=ports.image,
                consumer_config=_CurrentSettings(ports.current_config, ConsumerGroupConfig),
                share_config=_CurrentSettings(ports.current_config, ShareGroupConfig),
                streams_config=_CurrentSettings(ports.current_config, StreamsGroupConfig),
                persister=self.share_persister,
                end_offsets=EndOffsets(ports.share_state_brokers, ports.image, ports.slices),
                new_suffix=lambda: str(new_uuid(ports.randomness)),
            ),
        )
        self.markers = MarkerSender(ports.brokers, ports.image, ports.timers, self._on_markers_written)
        transaction_config = projection(config, TransactionConfig)
        self.transactions = TransactionService(
            transaction_config,
            self._state_log(_transactions_topic(transaction_config)),
            ports.timers,
            ports.clock,
            TransactionPorts(
                leader_epoch=self._leader_epoch,
                transaction_version=lambda: ports.image().features.get(TRANSACTION_VERSION, 0),
                new_producer_id=ports.producer_ids.next,
                send_markers=self.markers.send,
            ),
        )

    def start(self) -> None:
        """Begin to serve requests."""
        self.groups.start()
        self.transactions.start()
        self.share.start()

    async def stop(self) -> None:
        """Stop serving; waiting requests get an error after which clients look up the coordinator."""
        await self.markers.close()
        await self.share.stop()
        await self.transactions.stop()
        await self.groups.stop()

    def _on_markers_written(
        self, transaction: PreparedTransaction, partitions: Iterable[TopicPartition]
    ) -> None:
        self.transactions.on_markers_written(transaction, partitions)

    def _state_log(self, topic: StateTopic) -> TopicStateLog:
        ports = self._ports
        return TopicStateLog(
            topic,
            ports.replicas,
            ports.image,
            ports.fetch_purgatory,
            ports.clock,
            ports.lease,
        )

    def _create_share_coordinator(self, config: ShareCoordinatorConfig) -> ShareCoordinatorService:
        ports = self._ports

        def partition_count(topic_id: UUID) -> int:
            topic = ports.image().topics_by_id.get(topic_id)
            return 0 if topic is None else len(topic.partitions)

        def delete_records_before(partition: int, offset: Offset) -> None:
            state_partition = TopicPartition(SHARE_GROUP_STATE_TOPIC, partition)
            ports.replicas.partition(state_partition).delete_records_before(offset)

        return ShareCoordinatorService(
            config,
            ShareCoordinatorPorts(
                log=self._state_log(_share_state_topic(config)),
                timer=ports.timers,
                clock=ports.clock,
                partition_count=partition_count,
                is_enabled=lambda: share_groups_enabled(ports.image()),
                delete_records_before=delete_records_before,
            ),
        )

    def _leader_epoch(self, partition: int) -> LeaderEpoch:
        replica = self._ports.replicas.partitions.get(TopicPartition(TRANSACTION_STATE_TOPIC, partition))
        return NO_LEADER_EPOCH if replica is None else replica.leader_epoch


class _CurrentSettings(Generic[SettingsT]):
    """Returns a part of the current config, as a value of the class `part`."""

    def __init__(self, current: Callable[[], BrokerConfig], part: type[SettingsT]) -> None:
        self._current = current
        self._part = part
        self._config: BrokerConfig | None = None
        self._settings: SettingsT | None = None

    def __call__(self) -> SettingsT:
        config = self._current()
        if self._settings is None or config is not self._config:
            self._config, self._settings = config, projection(config, self._part)
        return self._settings


def _offsets_topic(config: GroupConfig) -> StateTopic:
    return StateTopic(
        name=GROUP_METADATA_TOPIC,
        num_partitions=config.offsets_topic_num_partitions,
        load_buffer_size=config.offsets_load_buffer_size,
        compression=Compression(config.offsets_topic_compression_codec),
    )


def _transactions_topic(config: TransactionConfig) -> StateTopic:
    return StateTopic(
        name=TRANSACTION_STATE_TOPIC,
        num_partitions=config.transaction_state_log_num_partitions,
        load_buffer_size=config.transaction_state_log_load_buffer_size,
        loads_committed=True,
    )


def _share_state_topic(config: ShareCoordinatorConfig) -> StateTopic:
    return StateTopic(
        name=SHARE_GROUP_STATE_TOPIC,
        num_partitions=config.share_coordinator_state_topic_num_partitions,
        load_buffer_size=config.share_coordinator_load_buffer_size,
        compression=Compression(config.share_coordinator_state_topic_compression_codec),
    )
