"""One broker node: everything it is made of, and the order in which it starts and stops.

    start   directories -> metadata -> logs -> partitions -> sockets bound -> registered -> serving
    stop    sockets closed once answered -> groups -> flushes -> logs closed cleanly -> metadata

A client can connect only when every partition is open, so the first answer is already right.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import fields
from functools import cached_property
from typing import Final

from broker.api_wiring import register_apis
from broker.broker_lifecycle import BrokerLifecycle, LifecycleSettings
from broker.clock import Clock, SystemClock
from broker.config import BrokerConfig
from broker.consumer_offsets import ConsumerOffsetsLog
from broker.controller.controller import Controller
from broker.controller_access import ControllerAccess
from broker.directory_locks import DirectoryLocks
from broker.dispatch import Dispatcher
from broker.dynamic_configs import DynamicBrokerConfig
from broker.fetch_sessions import FetchSessionCache
from broker.flusher import Flusher
from broker.forwarding import Forwarder
from broker.groups.config import GroupConfig
from broker.groups.service import GroupService
from broker.housekeeping import Housekeeping
from broker.listeners import Listener
from broker.metadata.directories import prepare_directories
from broker.metadata.log import MetadataLog
from broker.metadata.producer_ids import ProducerIds
from broker.metadata.randomness import SystemRandomness
from broker.metadata.store import MetadataStore
from broker.metadata.topic_creation import TopicCreation
from broker.metrics import BrokerMetrics
from broker.metrics_endpoint import MetricsEndpoint
from broker.network.config import UNLIMITED, ListenerConfig, NetworkConfig, parse_address_limits
from broker.network.request_channel import RequestChannel
from broker.network.server import NetworkServer
from broker.purgatory.purgatory import Purgatory
from broker.purgatory.timers import TimerDriver, Timers
from broker.registration import NO_EPOCH, previous_broker_epoch, registration_request
from broker.replica_manager import ReplicaManager
from broker.replica_metrics import report_replicas
from broker.replication.leadership import Leadership
from broker.replication.node_replication import NodeReplication
from broker.replication.throttles import ReplicationThrottles
from broker.replication.waiting import WaitingRequests
from broker.services import Services
from broker.topic_traffic import TopicTraffic
from cluster.delta import MetadataDelta
from cluster.image import MetadataImage
from cluster.topic_names import GROUP_METADATA_TOPIC
from protocol.ids import TopicPartition
from storage.config_definition import ConfigError
from storage.errors import StorageFailure
from storage.files import FileSystem, OsFileSystem
from storage.log import PartitionLog
from storage.log_directory import LogDirectory
from storage.log_manager import LogManager

logger = logging.getLogger(__name__)

# Syncing is what these threads do; more of them than disks does not make it faster.
FLUSH_THREADS: Final = 4
# Threads of their own: a produce that waits for its fsync must not wait for large files to be removed too.
HOUSEKEEPING_THREADS: Final = 2


class BrokerNode:
    """A broker with its embedded controller; `start` and `stop` run on one event loop."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        cluster_id: str | None = None,
    ) -> None:
        self.config = config
        self._fs: FileSystem = fs or OsFileSystem()
        self._clock: Clock = clock or SystemClock()
        self._cluster_id = cluster_id
        self._randomness = SystemRandomness()
        self._executor = ThreadPoolExecutor(FLUSH_THREADS, thread_name_prefix="tidelog-flush")
        self._housekeepers = ThreadPoolExecutor(HOUSEKEEPING_THREADS, thread_name_prefix="tidelog-upkeep")
        self.services: Services
        self.metrics = BrokerMetrics()
        self.metrics_endpoint: MetricsEndpoint | None = None
        self._broker_epoch = -1
        self.failed = asyncio.Event()
        """Set when this node cannot go on and has to be stopped; the reason is logged."""
        self._previous_broker_epoch = NO_EPOCH

    # ---- start

    async def start(self) -> None:
        """Start everything; returns once clients are served.

        Errors: what keeps it from running. Everything is closed in order then, so that the next start
        needs no recovery.
        """
        async with AsyncExitStack() as undo:
            undo.callback(self._executor.shutdown)
            undo.callback(self._housekeepers.shutdown)
            await self._open(undo)
            await self._join(undo)
            await self._serve(undo)
            undo.pop_all()

    async def _open(self, undo: AsyncExitStack) -> None:
        """The directories, the metadata, and the logs of the partitions that are placed here."""
        config, clock = self.config, self._clock
        self._identity = prepare_directories(
            self._fs, config.log_directories, config.node_id, self._cluster_id, self._randomness
        )
        self._locks = DirectoryLocks(self._fs, self._identity.directory_ids)
        undo.callback(self._locks.release)
        self._store = await self._open_metadata(self._identity.cluster_id)
        undo.push_async_callback(self._store.close)
        self._logs = LogManager(
            self._fs,
            config.log_directories,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )
        self._flusher = Flusher(self._executor, clock, self._flush_failed)
        self._dynamic_config = DynamicBrokerConfig(config)
        self._leadership = Leadership(
            config.node_id,
            clock=clock,
            brokers=lambda: self._store.image.brokers,
            own_epoch=lambda: self._lifecycle.broker_epoch,
            lag_time_max_ms=config.replica_lag_time_max_ms,
        )
        self._replicas = ReplicaManager(
            config.node_id, self._logs, self._dynamic_config.topic_defaults, self._leadership
        )
        self._throttles = ReplicationThrottles.of(config)
        undo.callback(self._close_logs)
        self._previous_broker_epoch = previous_broker_epoch(
            self._fs, config.log_directories, self._identity.directory_ids
        )
        self._open_logs()

    async def _join(self, undo: AsyncExitStack) -> None:
        """Bind the listeners, whose ports the registration tells, and register."""
        config = self.config
        self._network = NetworkServer(_network_config(config), clock=self._clock)
        self._channel = RequestChannel(config.queued_max_requests)
        self._dispatcher = Dispatcher(self._channel, self.metrics.requests, self._clock)
        undo.push_async_callback(self._network.close, timeout_s=0)
        for listener in config.broker_listeners:
            self._network.bind(_listener_config(config, listener), self._dispatcher.dispatch)
        self._controller = Controller(
            config,
            self._store,
            clock=self._clock,
            randomness=self._randomness,
            tasks=self._channel,
            metrics=self.metrics.requests,
        )
        self._access = ControllerAccess(config, self._store, self._clock, local=self._controller.in_process)
        undo.push_async_callback(self._access.close)
        self._lifecycle = self._make_lifecycle()
        undo.push_async_callback(self._lifecycle.close)
        self._lifecycle.start()
        self._broker_epoch = await self._lifecycle.registered()
        await self._lifecycle.unfenced()

    async def _serve(self, undo: AsyncExitStack) -> None:
        """Everything that answers requests; the listeners accept last."""
        self._timers = Timers(self._clock.monotonic_ms)
        self._driver = TimerDriver(self._timers)
        undo.callback(self._driver.stop)
        undo.push_async_callback(self._flusher.close)
        self.services = self._make_services()
        undo.push_async_callback(self._groups.stop)
        self._replication = NodeReplication(
            self.config,
            self._replicas,
            self._throttles,
            channel=self._access.general,
            environment=self._access.environment,
            image=lambda: self._store.image,
            directory_ids=self._identity.directory_ids,
            clock=self._clock,
        )
        self._logs.on_offline = self._directory_failed
        undo.push_async_callback(self._replication.close)
        self._store.subscribe(self._follow_topics)
        register_apis(self._dispatcher, self.services)
        self._housekeeping = Housekeeping(
            self._logs,
            self._flusher,
            self._housekeepers,
            self._timers,
            self._clock,
            self.config,
            self._replicas.check_isrs,
        )
        undo.callback(self._housekeeping.stop)
        self._housekeeping.start()
        self._groups.start()
        self._replication.start()
        await self._start_metrics()
        await self._network.start()

    def _make_lifecycle(self) -> BrokerLifecycle:
        config = self.config
        registration = registration_request(
            node_id=config.node_id,
            cluster_id=self._identity.cluster_id,
            incarnation_id=self._randomness.uuid(),
            advertised=self._advertised(),
            rack=config.broker_rack,
            directory_ids=self._identity.directory_ids.values(),
            previous_broker_epoch=self._previous_broker_epoch,
        )
        settings = LifecycleSettings(
            heartbeat_interval_ms=config.broker_heartbeat_interval_ms,
            session_timeout_ms=config.broker_session_timeout_ms,
            initial_registration_timeout_ms=config.initial_broker_registration_timeout_ms,
            log_dir_failure_timeout_ms=config.log_dir_failure_timeout_ms,
        )
        return BrokerLifecycle(
            self._access.heartbeats,
            registration,
            settings,
            clock=self._clock,
            rng=self._access.environment.rng,
            metadata_offset=lambda: self._store.image.offset,
            on_fatal=self._cannot_go_on,
        )

    def _directory_failed(self, directory: LogDirectory) -> None:
        """A disk failed: the controller moves its leaders away. Without a disk there is nothing to do."""
        self._replicas.storage_lost(directory.lost, str(directory.offline_reason))
        self._lifecycle.directory_failed(self._identity.directory_ids[directory.path])
        if not self._logs.online_directories:
            self._cannot_go_on("every log directory is offline")

    def _cannot_go_on(self, reason: str) -> None:
        """Hear why this node must stop; whoever runs it waits for `failed`."""
        logger.error("broker %d must stop: %s", self.config.node_id, reason)
        self.failed.set()

    async def _open_metadata(self, cluster_id: str) -> MetadataStore:
        config = self.config
        log = MetadataLog.open(
            self._fs,
            config.metadata_log_directory,
            segment_bytes=config.metadata_log_segment_bytes,
            segment_ms=config.metadata_log_segment_ms,
            now_ms=self._clock.wall_ms(),
        )
        store = MetadataStore(
            log,
            cluster_id=cluster_id,
            node_id=config.node_id,
            clock=self._clock,
            executor=self._executor,
        )
        await store.start(config.min_insync_replicas)
        return store

    def _open_logs(self) -> None:
        """Open every log of the directories, then the partitions that the metadata places here."""
        now_ms = self._clock.wall_ms()
        image = self._store.image
        self._logs.start(now_ms, lambda topic: self._replicas.log_config(topic, self._store.image))
        self._logs.set_strays_aside(self._replicas.expected(image), now_ms)
        self._store.subscribe(self._throttles.apply)
        self._store.subscribe(self._follow_partitions)

    def _make_services(self) -> Services:
        config = self.config
        fetch_purgatory = Purgatory("Fetch", self._timers)
        produce_purgatory = Purgatory("Produce", self._timers)
        delete_records_purgatory = Purgatory("DeleteRecords", self._timers)
        self._leadership.waiting = WaitingRequests(
            fetch_purgatory, produce_purgatory, delete_records_purgatory
        )
        group_config = GroupConfig(
            **{field.name: getattr(config, field.name) for field in fields(GroupConfig)}
        )
        offsets_log = ConsumerOffsetsLog(
            self._replicas, lambda: self._store.image, fetch_purgatory, group_config, self._clock
        )
        self._groups = GroupService(group_config, offsets_log, self._timers, self._clock)
        return Services(
            config=config,
            clock=self._clock,
            randomness=self._randomness,
            store=self._store,
            logs=self._logs,
            replicas=self._replicas,
            flusher=self._flusher,
            groups=self._groups,
            group_config=group_config,
            sessions=FetchSessionCache(
                config.max_incremental_fetch_session_cache_slots,
                lambda: self._randomness.below(2**31 - 1) + 1,
            ),
            produce_purgatory=produce_purgatory,
            fetch_purgatory=fetch_purgatory,
            delete_records_purgatory=delete_records_purgatory,
            traffic=TopicTraffic(),
            throttles=self._throttles,
            channel=self._access.general,
            forwarder=Forwarder(
                self._access.forwarding, self._channel, self._clock, config.request_timeout_ms
            ),
            producer_ids=ProducerIds(
                self._access.general,
                config.node_id,
                lambda: self._lifecycle.broker_epoch,
                self._clock,
            ),
            topic_creation=TopicCreation(self._access.general, config, self._clock),
        )

    async def _start_metrics(self) -> None:
        services, metrics = self.services, self.metrics
        metrics.add_network(self._network)
        metrics.add_channel(self._channel)
        metrics.add_purgatories(
            services.produce_purgatory, services.fetch_purgatory, services.delete_records_purgatory
        )
        metrics.add_traffic(services.traffic)
        report_replicas(metrics, self._replicas)
        if self.config.metrics_port is not None:
            self.metrics_endpoint = MetricsEndpoint(metrics, self._why_unhealthy)
            await self.metrics_endpoint.start("", self.config.metrics_port)

    def _why_unhealthy(self) -> str | None:
        failure = self._store.failure
        if failure is not None:
            return str(failure)
        if not self._logs.online_directories:
            return "every log directory is offline"
        return None

    # ---- following the metadata

    def _follow_partitions(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if self._dynamic_config.apply(delta, image):
            self._replicas.update_defaults(self._dynamic_config.topic_defaults, image)
        self._replicas.apply(delta, image, self._clock.wall_ms())

    def _follow_topics(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """What depends on partitions, once they have followed: groups, and requests that wait."""
        for topic in delta.deleted_topics:
            if topic.name == GROUP_METADATA_TOPIC:
                for index in topic.partitions:
                    self._groups.on_resignation(index)
        if GROUP_METADATA_TOPIC in delta.changed_topics:
            topic = image.topics_by_name[GROUP_METADATA_TOPIC]
            for index, placed in topic.partitions.items():
                if placed.leader == self.config.node_id:
                    self._groups.on_leadership(index)
                else:
                    self._groups.on_resignation(index)
        for topic in delta.deleted_topics:
            for index in topic.partitions:
                gone = TopicPartition(topic.name, index)
                self.services.fetch_purgatory.check_and_complete(gone)
                self.services.produce_purgatory.check_and_complete(gone)
        deleted = {topic.name: topic.id for topic in delta.deleted_topics}
        if deleted:
            self._groups.on_topics_deleted(deleted)

    def _flush_failed(self, log: PartitionLog, failure: StorageFailure) -> None:
        self._logs.flush_failed(log, failure)

    # ---- addresses

    def bound_port(self, listener: str | None = None) -> int:
        """The port of a listener, by default the first; of interest when port 0 was asked for."""
        return self._network.port(listener or self.config.broker_listeners[0].name)

    def addresses(self) -> Iterator[tuple[str, str, int]]:
        """Name, host and port of every listener as clients are told them."""
        for listener in self._advertised():
            yield listener.name, listener.host, listener.port

    def _advertised(self) -> tuple[Listener, ...]:
        bound = {name: listener.port for name, listener in self._network.listeners.items()}
        return self.config.advertised(self._host_name, bound)

    @cached_property
    def _host_name(self) -> str:
        """What clients are told when nothing is configured; may ask a name server, and that once."""
        named = (*self.config.broker_listeners, *self.config.advertised("", {}))
        return "" if all(listener.host for listener in named) else socket.getfqdn()

    # ---- stop

    async def stop(self, timeout_s: float = 5.0) -> None:
        """Shut down cleanly: answer what is in hand, make everything durable, leave the marker of it."""
        services = self.services
        if self.config.controlled_shutdown_enable:
            await self._lifecycle.shut_down(int(timeout_s * 1000))
        await self._lifecycle.close()
        await self._replication.close()
        for purgatory in (
            services.fetch_purgatory,
            services.produce_purgatory,
            services.delete_records_purgatory,
        ):
            purgatory.force_all()
        self._housekeeping.stop()
        await self._network.close(timeout_s)
        await self._groups.stop()
        await self._channel.close()
        await self.services.topic_creation.close()
        await self._access.close()
        await self._flusher.close()
        try:
            self._close_logs()
            await self._store.close()
        finally:
            await self._release()

    async def abandon(self) -> None:
        """End without a shutdown, as after a crash: nothing more is written."""
        await self._lifecycle.close()
        await self._replication.close()
        await self._access.close()
        self._housekeeping.stop()
        await self._network.close(timeout_s=0)
        await self._groups.stop()
        await self._channel.close()
        await self._store.abandon()
        await self._flusher.close()
        await self._release()

    async def _release(self) -> None:
        if self.metrics_endpoint is not None:
            await self.metrics_endpoint.close()
        self._driver.stop()
        self._executor.shutdown(wait=True)
        self._housekeepers.shutdown(wait=True)
        self._locks.release()

    def _close_logs(self) -> None:
        self._logs.on_offline = None
        self._logs.shutdown(self._clock.wall_ms(), self._broker_epoch)


def _listener_config(config: BrokerConfig, listener: Listener) -> ListenerConfig:
    key = f"listener.name.{listener.name.lower()}.max.connections"
    text = config.explicit.get(key, str(UNLIMITED))
    if not text.isdecimal():
        raise ConfigError(key, text, "allowed is a number from 0 on")
    return ListenerConfig(
        name=listener.name, host=listener.host, port=listener.port, max_connections=int(text)
    )


def _network_config(config: BrokerConfig) -> NetworkConfig:
    values = {field.name: getattr(config, field.name) for field in fields(NetworkConfig)}
    values["max_connections_per_ip_overrides"] = parse_address_limits(config.max_connections_per_ip_overrides)
    return NetworkConfig(**values)
