"""The replication of one node: the fetchers of its followers, and directory assignments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.channels.broker_channel import broker_address
from tidelog.broker.channels.controller_channel import ControllerChannel
from tidelog.broker.channels.node_connections import node_connection_settings
from tidelog.broker.channels.peer_security import PeerSecurity
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.replication.directory_assignments import DirectoryAssignments
from tidelog.broker.replication.fetcher import FetcherPorts
from tidelog.broker.replication.fetcher_manager import FetcherManager
from tidelog.broker.replication.remote_tier import FollowerTier
from tidelog.broker.replication.throttles import ReplicationThrottles
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.connecting import open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.features import supports_directories
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.protocol.ids import BrokerId
from tidelog.storage.log.partition_log import PartitionLog


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPorts:
    """The ports of replication to the rest of the node.

    `channel` sends requests to the controller. `image` returns the current metadata. `directory_ids` has the
    ids of the log directories by path. `flush` makes the current content of a log durable. `security` is that
    of connections to other brokers.
    """

    config: BrokerConfig
    clock: Clock
    environment: Environment
    channel: ControllerChannel
    image: Callable[[], MetadataImage]
    directory_ids: Mapping[str, UUID]
    flush: Callable[[PartitionLog], Awaitable[None]]
    security: PeerSecurity


class NodeReplication:
    """The replication of one node. Start it when the node is registered.

    `tier` is used by followers of tiered logs; None without remote storage.
    """

    def __init__(
        self,
        ports: ReplicationPorts,
        replicas: ReplicaManager,
        throttles: ReplicationThrottles,
        tier: FollowerTier | None,
    ) -> None:
        broker_id, leadership = ports.config.node_id, replicas.leadership
        self._replicas = replicas
        self._image = ports.image
        self.fetchers = _create_fetchers(ports, replicas, throttles, tier)
        self.assignments = DirectoryAssignments(
            ports.channel, broker_id, leadership.own_epoch, ports.directory_ids, ports.clock
        )
        replicas.add_listener(self.fetchers)
        replicas.add_listener(self.assignments)

    def start(self) -> None:
        """Start to fetch, and report replicas whose directory differs from the metadata."""
        partitions = self._replicas.partitions.values()
        self.fetchers.start(partitions)
        self.assignments.check(partitions, self._image())

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """After an upgrade of metadata.version, report the directories of all replicas."""
        if supports_directories(image) and not supports_directories(delta.base):
            self.assignments.check(self._replicas.partitions.values(), image)

    async def close(self) -> None:
        """End the fetchers and the directory assignments."""
        await self.fetchers.close()
        await self.assignments.close()


def _create_fetchers(
    ports: ReplicationPorts,
    replicas: ReplicaManager,
    throttles: ReplicationThrottles,
    tier: FollowerTier | None,
) -> FetcherManager:
    config = ports.config
    connection_settings = node_connection_settings(
        config,
        security=ports.security,
        request_timeout_ms=config.replica_socket_timeout_ms,
        receive_buffer_bytes=config.replica_socket_receive_buffer_bytes,
        # The first batch of a response may have any size up to that of a segment.
        max_response_bytes=config.replica_fetch_response_max_bytes + config.log_segment_bytes,
    )
    settings = FollowerSettings(
        replica_id=config.node_id,
        partition_max_bytes=config.replica_fetch_max_bytes,
        max_bytes=config.replica_fetch_response_max_bytes,
        min_bytes=config.replica_fetch_min_bytes,
        max_wait_ms=config.replica_fetch_wait_max_ms,
        backoff_ms=config.replica_fetch_backoff_ms,
    )

    async def connect(leader_id: BrokerId) -> BrokerConnection:
        address = broker_address(ports.image(), leader_id, config.inter_broker_listener)
        return await open_connection(ports.environment, connection_settings, address)

    fetcher_ports = FetcherPorts(
        connect=connect,
        broker_epoch=replicas.leadership.own_epoch,
        on_high_watermark_advanced=replicas.leadership.complete_waiting_requests,
        clock=ports.clock,
        quota=throttles.follower,
        backoff_ms=config.replica_fetch_backoff_ms,
        tier=tier,
        flush=ports.flush,
    )
    return FetcherManager(
        config.node_id,
        config.num_replica_fetchers,
        fetcher_ports,
        lambda: FollowerFetcher(settings, throttle=throttles.follower, tier=tier),
        last_tiered_offset=config.follower_fetch_last_tiered_offset_enable,
    )
