"""The follower's side of one node, put together: fetchers, throttles, connections to the leaders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tidelog.base.clock import Clock
from tidelog.broker.channels.broker_channel import broker_address
from tidelog.broker.channels.node_connections import node_connection_settings
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.partitions.replica_manager import ReplicaManager
from tidelog.broker.replication.fetcher import FetcherPorts
from tidelog.broker.replication.fetcher_manager import FetcherManager
from tidelog.broker.replication.remote_tier import FollowersTier
from tidelog.broker.replication.throttles import ReplicationThrottles
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.connecting import open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.replication.follower_fetcher import FollowerFetcher, FollowerSettings
from tidelog.protocol.ids import BrokerId
from tidelog.storage.log.partition_log import PartitionLog


def make_fetchers(
    config: BrokerConfig,
    replicas: ReplicaManager,
    throttles: ReplicationThrottles,
    *,
    image: Callable[[], MetadataImage],
    broker_epoch: Callable[[], int],
    clock: Clock,
    environment: Environment,
    tier: FollowersTier | None = None,
    flush: Callable[[PartitionLog], Awaitable[None]] | None = None,
) -> FetcherManager:
    """The manager of this node's fetchers; it hears of role changes from now on, and fetches once started.

    `tier` is where followers of tiered logs learn of the past, None without remote storage.
    """
    connection_settings = node_connection_settings(
        config,
        request_timeout_ms=config.replica_socket_timeout_ms,
        receive_buffer_bytes=config.replica_socket_receive_buffer_bytes,
        # One batch comes whole however large it is, and a segment bounds that.
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
        address = broker_address(image(), leader_id, config.inter_broker_listener)
        return await open_connection(environment, connection_settings, address)

    ports = FetcherPorts(
        connect=connect,
        broker_epoch=broker_epoch,
        progressed=replicas.leadership.progressed,
        clock=clock,
        quota=throttles.follower,
        backoff_ms=config.replica_fetch_backoff_ms,
        tier=tier,
        flush=flush,
    )
    manager = FetcherManager(
        config.node_id,
        config.num_replica_fetchers,
        ports,
        lambda: FollowerFetcher(settings, throttle=throttles.follower, tier=tier),
        last_tiered_offset=config.follower_fetch_last_tiered_offset_enable,
    )
    replicas.listeners.append(manager)
    return manager
