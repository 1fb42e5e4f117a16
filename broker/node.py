"""One node: everything it is made of, and the order in which it starts and stops.

    start   directories -> metadata quorum and its listeners -> sockets bound -> registered
            -> caught up with the metadata -> logs and partitions -> unfenced -> serving
    stop    leaders moved away -> sockets closed once answered -> groups -> flushes
            -> logs closed cleanly -> metadata quorum, whose leadership is given up

A client can connect only when every partition is open, so the first answer is already right. A node
that is no broker ends its start with the quorum.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import fields
from functools import cached_property, partial
from typing import Final

from broker.api_wiring import register_apis
from broker.clock import Clock, SystemClock
from broker.config import BrokerConfig
from broker.consumer_offsets import ConsumerOffsetsLog
from broker.controller.controller import Controller
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
from broker.metadata.producer_ids import ProducerIds
from broker.metadata.randomness import SystemRandomness
from broker.metadata.topic_creation import TopicCreation
from broker.metrics import BrokerMetrics
from broker.metrics_endpoint import MetricsEndpoint
from broker.network.request import Request
from broker.network.request_channel import RequestChannel
from broker.network.server import NetworkServer
from broker.purgatory.purgatory import Purgatory
from broker.purgatory.timers import TimerDriver, Timers
from broker.raft.handlers import RaftHandlers
from broker.raft.raft_node import RaftNode
from broker.registration import previous_broker_epoch
from broker.replica_manager import ReplicaManager
from broker.replica_metrics import report_replicas
from broker.replication.leadership import Leadership
from broker.replication.node_replication import NodeReplication
from broker.replication.throttles import ReplicationThrottles
from broker.replication.waiting import WaitingRequests
from broker.services import Services
from broker.topic_traffic import TopicTraffic
from broker.wiring.controllers import ControllerListeners, make_access, make_registration
from broker.wiring.lifecycle import make_lifecycle
from broker.wiring.network import listener_config, network_config
from broker.wiring.quorum import make_raft_node
from broker.wiring.topic_followers import follow_topics
from clients.environment import SystemEnvironment
from cluster.delta import MetadataDelta
from cluster.image import MetadataImage
from storage.config_definition import ConfigError
from storage.errors import StorageFailure
from storage.files import FileSystem, OsFileSystem
from storage.log import PartitionLog
from storage.log_directory import LogDirectory
from storage.log_manager import LogManager

logger = logging.getLogger(__name__)

# One for what must be durable before the quorum goes on, one for a snapshot.
QUORUM_THREADS: Final = 2
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
        self._quorum_threads = ThreadPoolExecutor(QUORUM_THREADS, thread_name_prefix="tidelog-quorum")
        self._executor = ThreadPoolExecutor(FLUSH_THREADS, thread_name_prefix="tidelog-flush")
        self._housekeepers = ThreadPoolExecutor(HOUSEKEEPING_THREADS, thread_name_prefix="tidelog-upkeep")
        self.services: Services
        self.metrics = BrokerMetrics()
        self.metrics_endpoint: MetricsEndpoint | None = None
        self._environment = SystemEnvironment()
        self._ended = False
        self.failed = asyncio.Event()
        """Set when this node cannot go on and has to be stopped; the reason is logged."""

    # ---- start

    async def start(self) -> None:
        """Start everything; returns once clients are served.

        Errors: what keeps it from running. Everything is closed in order then, so that the next start
        needs no recovery.
        """
        async with AsyncExitStack() as undo:
            for executor in (self._quorum_threads, self._executor, self._housekeepers):
                undo.callback(executor.shutdown)
            await self._open(undo)
            await self._join_quorum(undo)
            if self.config.is_broker:
                await self._join_cluster(undo)
                self._open_logs(undo)
                await self._serve(undo)
            undo.pop_all()

    async def _open(self, undo: AsyncExitStack) -> None:
        """The directories, which belong to this node and cluster and to no other process."""
        config = self.config
        self._identity = prepare_directories(
            self._fs,
            tuple(dict.fromkeys((*config.log_directories, config.metadata_log_directory))),
            config.node_id,
            self._cluster_id,
            self._randomness,
            may_be_new=config.has_own_quorum,
        )
        if config.metadata_log_directory not in self._identity.directory_ids:
            raise ConfigError("metadata.log.dir", config.metadata_log_directory, "it cannot be used")
        self._locks = DirectoryLocks(self._fs, self._identity.directory_ids)
        undo.callback(self._locks.release)
        self._directory_ids = {
            path: directory_id
            for path, directory_id in self._identity.directory_ids.items()
            if path in config.log_directories
        }

    async def _join_quorum(self, undo: AsyncExitStack) -> None:
        """The metadata log, followed from now on, and the controller with its listeners, if it is one."""
        config, clock = self.config, self._clock
        self._controller_channel = RequestChannel(config.queued_max_requests)
        self._controllers = ControllerListeners(config, clock, self._dispatch_to_controller)
        undo.push_async_callback(self._controllers.close, timeout_s=0)
        self._raft = make_raft_node(
            config,
            cluster_id=self._identity.cluster_id,
            directory_id=self._identity.directory_ids[config.metadata_log_directory],
            endpoints=self._controllers.endpoints(self._host_name),
            fs=self._fs,
            clock=clock,
            environment=self._environment,
            executor=self._quorum_threads,
            randomness=self._randomness,
            on_fatal=lambda error: self._cannot_go_on(f"the metadata quorum has ended: {error}"),
        )
        undo.push_async_callback(self._raft.abandon)
        self._store = self._raft.store
        self._controller = Controller(
            config,
            self._store,
            clock=clock,
            randomness=self._randomness,
            tasks=self._controller_channel,
            metrics=self.metrics.requests,
        )
        self._access = make_access(config, self._raft, self._controller, clock, self._environment)
        undo.push_async_callback(self._access.close)
        self._store.on_leader_change(self._access.controller_changed)
        handlers = RaftHandlers(self._raft.driver.post, lambda: self._raft.driver.failure is not None)
        handlers.register(self._controller.dispatcher)
        await self._controllers.start()
        self._raft.start()
        self._enlistment = make_registration(
            config,
            self._access,
            self._store,
            clock,
            incarnation_id=self._randomness.uuid(),
            listeners=config.advertised_controllers(self._host_name, self._controllers.ports()),
        )
        undo.push_async_callback(self._enlistment.close)
        if config.controller_listeners:
            self._enlistment.start()

    def _dispatch_to_controller(self, request: Request) -> None:
        self._controller.dispatcher.dispatch(request)

    async def _join_cluster(self, undo: AsyncExitStack) -> None:
        """Bind the listeners, whose ports the registration tells, register, and catch up."""
        config = self.config
        self._network = NetworkServer(network_config(config), clock=self._clock)
        self._channel = RequestChannel(config.queued_max_requests)
        self._dispatcher = Dispatcher(self._channel, self.metrics.requests, self._clock)
        undo.push_async_callback(self._network.close, timeout_s=0)
        for listener in config.broker_listeners:
            self._network.bind(listener_config(config, listener), self._dispatcher.dispatch)
        former_epoch = previous_broker_epoch(self._fs, config.log_directories, self._directory_ids)
        self._lifecycle = make_lifecycle(
            config,
            cluster_id=self._identity.cluster_id,
            advertised=self._advertised(),
            directory_ids=self._directory_ids.values(),
            previous_broker_epoch=former_epoch,
            access=self._access,
            store=self._store,
            clock=self._clock,
            randomness=self._randomness,
            on_fatal=self._cannot_go_on,
        )
        undo.push_async_callback(self._lifecycle.close)
        self._lifecycle.start()
        await self._lifecycle.registered()
        await self._lifecycle.caught_up()

    def _open_logs(self, undo: AsyncExitStack) -> None:
        """Every log of the directories, then the partitions that the metadata places here."""
        config = self.config
        self._logs = LogManager(
            self._fs,
            config.log_directories,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
        )
        self._flusher = Flusher(self._executor, self._clock, self._flush_failed)
        self._dynamic_config = DynamicBrokerConfig(config)
        self._leadership = Leadership(
            config.node_id,
            clock=self._clock,
            brokers=lambda: self._store.image.brokers,
            own_epoch=lambda: self._lifecycle.broker_epoch,
            lag_time_max_ms=config.replica_lag_time_max_ms,
        )
        self._replicas = ReplicaManager(
            config.node_id, self._logs, self._dynamic_config.topic_defaults, self._leadership
        )
        self._throttles = ReplicationThrottles.of(config)
        undo.callback(self._close_logs)
        now_ms = self._clock.wall_ms()
        image = self._store.image
        self._logs.start(now_ms, lambda topic: self._replicas.log_config(topic, self._store.image))
        self._logs.set_strays_aside(self._replicas.expected(image), now_ms)
        self._store.subscribe(self._throttles.apply)
        self._store.subscribe(self._follow_partitions)

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
        self._store.subscribe(partial(follow_topics, self.services))
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
        await self._lifecycle.unfenced()
        await self._network.start()

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
        report_replicas(metrics, self._replicas, self._replication.fetchers)
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

    def _flush_failed(self, log: PartitionLog, failure: StorageFailure) -> None:
        self._logs.flush_failed(log, failure)

    @property
    def raft(self) -> RaftNode:
        """This node's replica of the metadata quorum."""
        return self._raft

    # ---- addresses

    def bound_port(self, listener: str | None = None) -> int:
        """The port of a listener, by default the first; of interest when port 0 was asked for."""
        return self._bound_ports()[listener or next(iter(self._bound_ports()))]

    def addresses(self) -> Iterator[tuple[str, str, int]]:
        """Name, host and port of every listener as others are told them: clients, if it is a broker."""
        ports, config = self._bound_ports(), self.config
        told = config.advertised if config.is_broker else config.advertised_controllers
        for listener in told(self._host_name, ports):
            yield listener.name, listener.host, listener.port

    def _advertised(self) -> tuple[Listener, ...]:
        return self.config.advertised(self._host_name, self._bound_ports())

    def _bound_ports(self) -> dict[str, int]:
        """By listener: those for clients first."""
        servers = [self._network] if self.config.is_broker else []
        if self._controllers.network is not None:
            servers.append(self._controllers.network)
        return {name: each.port for server in servers for name, each in server.listeners.items()}

    @cached_property
    def _host_name(self) -> str:
        """What others are told when nothing is configured; may ask a name server, and that once."""
        config = self.config
        named = (
            *config.broker_listeners,
            *config.advertised("", {}),
            *config.advertised_controllers("", {}),
        )
        return "" if all(listener.host for listener in named) else socket.getfqdn()

    # ---- stop

    async def stop(self, timeout_s: float = 5.0) -> None:
        """Shut down cleanly: answer what is in hand, make everything durable, leave the marker of it."""
        if self._ended:
            return
        self._ended = True
        try:
            if self.config.is_broker:
                await self._stop_serving(timeout_s)
                self._close_logs()
        finally:
            await self._leave_controller()
            try:
                await self._raft.stop()
            finally:
                await self._release()

    async def _stop_serving(self, timeout_s: float) -> None:
        """Have leaders move away, answer what is in hand, and take nothing more."""
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
        await services.topic_creation.close()
        await self._flusher.close()

    async def abandon(self) -> None:
        """End without a shutdown, as after a crash: nothing more is written."""
        if self._ended:
            return
        self._ended = True
        await self._raft.abandon()
        await self._leave_controller()
        if self.config.is_broker:
            await self._lifecycle.close()
            await self._replication.close()
            self._housekeeping.stop()
            await self._network.close(timeout_s=0)
            await self._groups.stop()
            await self._channel.close()
            await self._flusher.close()
        await self._release()

    async def _leave_controller(self) -> None:
        """Ask the active controller for nothing more."""
        await self._enlistment.close()
        await self._access.close()

    async def _release(self) -> None:
        await self._controllers.close(timeout_s=0)
        await self._controller_channel.close()
        if self.metrics_endpoint is not None:
            await self.metrics_endpoint.close()
        if self.config.is_broker:
            self._driver.stop()
        for executor in (self._quorum_threads, self._executor, self._housekeepers):
            executor.shutdown(wait=True)
        self._locks.release()

    def _close_logs(self) -> None:
        self._logs.on_offline = None
        self._logs.shutdown(self._clock.wall_ms(), self._lifecycle.broker_epoch)
