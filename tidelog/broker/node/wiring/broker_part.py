"""The part of a node that is a broker: partitions, groups, and everything that clients ask."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.api.handlers.registry import register_apis
from tidelog.broker.api.handlers.services import Services
from tidelog.broker.channels.broker_channel import BrokerChannel
from tidelog.broker.channels.forwarding import Forwarder
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.coordinators.groups.metrics import report_groups
from tidelog.broker.coordinators.transactions.metrics import report_transactions
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.logs.cleaning.metrics import report_cleaning
from tidelog.broker.logs.descriptor_budget import process_budget
from tidelog.broker.logs.housekeeping import Housekeeping
from tidelog.broker.metadata.producer_ids import ProducerIds
from tidelog.broker.metadata.topic_creation import TopicCreation
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring.brokers import make_broker_channel
from tidelog.broker.node.wiring.connection_limits import ConnectionLimits
from tidelog.broker.node.wiring.coordinators import CoordinatorPorts, Coordinators
from tidelog.broker.node.wiring.lifecycle import make_lifecycle
from tidelog.broker.node.wiring.logs_part import LogsPart
from tidelog.broker.node.wiring.network import listener_config, network_config
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.quorum_part import QuorumPart
from tidelog.broker.node.wiring.topic_followers import CoordinatorRoles, coordinators_of, follow_topics
from tidelog.broker.node.wiring.transactional_writes import TransactionalWrites
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.leadership_lease import LeadershipLease
from tidelog.broker.partitions.waiting_requests import WaitingRequests
from tidelog.broker.purgatory.parked_memory import ParkedMemory
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import TimerDriver, Timers
from tidelog.broker.registration.broker_registration import previous_broker_epoch
from tidelog.broker.replication.node_replication import NodeReplication
from tidelog.broker.replication.replica_metrics import report_replicas

if TYPE_CHECKING:
    from tidelog.broker.tier.part import RemotePart

REMOTE_CLOSE_TIMEOUT_S: Final = 5.0
REMOTE_ABANDON_TIMEOUT_S: Final = 0.5


class BrokerPart:
    """A broker; `start`, then `stop` or `abandon`, each once."""

    def __init__(self, context: NodeContext, quorum: QuorumPart) -> None:
        self.config = context.config
        self._context = context
        self._clock = context.clock
        self._descriptors = process_budget()
        self._store = quorum.raft.store
        self._access = quorum.access
        self.remote: RemotePart | None = None
        """Tiered storage, where it is switched on."""

    # ---- start

    async def start(self, undo: AsyncExitStack) -> None:
        """Register with the controller, open the logs, and serve."""
        await self._join_cluster(undo)
        self._logs = LogsPart(self._context, self._store, self._lifecycle, self._settings_changed)
        await self._logs.open(undo)
        await self._serve(undo)

    def _socket_refusal(self, descriptor: int, is_protected: bool) -> str | None:
        """Return why an accepted socket is one too many; brokers reach each other for longer than clients."""
        listeners = () if is_protected else self._network.listeners.values()
        return self._descriptors.connection_refusal(descriptor, sum(each.socket_count for each in listeners))

    async def _join_cluster(self, undo: AsyncExitStack) -> None:
        """Bind the listeners, whose ports the registration tells, register, and catch up."""
        config = self.config
        self._network = NetworkServer(network_config(config), clock=self._clock)
        self._network.socket_refusal = self._socket_refusal
        self._connection_limits = ConnectionLimits(self._network, self._context.threads.housekeeping)
        undo.push_async_callback(self._connection_limits.close)
        self._channel = RequestChannel(config.queued_max_requests)
        self._dispatcher = Dispatcher(
            self._channel, self._context.metrics.requests, self._clock, self._context.slices
        )
        undo.push_async_callback(self._network.close, timeout_s=0)
        for listener in config.broker_listeners:
            self._network.bind(listener_config(config, listener), self._dispatcher.dispatch)
        former_epoch = previous_broker_epoch(
            self._context.fs, config.log_directories, self._context.log_directory_ids
        )
        self._lifecycle = make_lifecycle(
            config,
            cluster_id=self._context.cluster_id,
            advertised=self.advertised(),
            directory_ids=self._context.log_directory_ids.values(),
            previous_broker_epoch=former_epoch,
            access=self._access,
            store=self._store,
            clock=self._clock,
            randomness=self._context.randomness,
            on_fatal=self._context.cannot_go_on,
        )
        undo.push_async_callback(self._lifecycle.close)
        self._lease = LeadershipLease(
            self._clock, config.broker_session_timeout_ms, lambda: self._lifecycle.confirmed_ms
        )
        self._lifecycle.start()
        await self._lifecycle.registered()
        await self._lifecycle.caught_up()

    async def _serve(self, undo: AsyncExitStack) -> None:
        """Everything that answers requests; the listeners accept last."""
        self._timers = Timers(self._clock.monotonic_ms)
        self._parked = ParkedMemory(self.config.max_parked_request_bytes)
        self._driver = TimerDriver(self._timers)
        undo.callback(self._driver.stop)
        undo.push_async_callback(self._logs.flusher.close)
        self.remote = await self._make_remote(undo)
        # Markers are acknowledged when they are replicated; verifications must not wait for that.
        self._marker_channel = self._make_broker_channel(undo)
        self._verification_channel = self._make_broker_channel(undo)
        self._transactional_writes = self._make_transactional_writes()
        undo.push_async_callback(self._transactional_writes.close)
        self.services = self._make_services()
        undo.push_async_callback(self._coordinators.stop)
        self._replication = NodeReplication(
            self.config,
            self._logs.replicas,
            self._logs.throttles,
            channel=self._access.general,
            environment=self._access.environment,
            image=lambda: self._store.image,
            directory_ids=self._context.directory_ids,
            clock=self._clock,
            tier=None if self.remote is None else self.remote.followers_tier,
            flush=self._logs.flusher.flush,
        )
        undo.push_async_callback(self._replication.close)
        self._store.subscribe(partial(follow_topics, self.services))
        self._logs.replicas.listeners.append(CoordinatorRoles(coordinators_of(self.services)))
        register_apis(self._dispatcher, self.services)
        self._housekeeping = Housekeeping(
            self._logs.manager,
            self._logs.flusher,
            self._context.threads.housekeeping,
            self._timers,
            self._clock,
            self.config,
            self._logs.replicas.check_isrs,
        )
        undo.callback(self._housekeeping.stop)
        self._housekeeping.start()
        self._logs.cleaner.start()
        self._coordinators.start()
        if self.remote is not None:
            self.remote.follow(self._store.image)
            self.remote.remove_deleted(self._logs.manager.found_out_of_use, self._store.image)
            self._store.subscribe(self.remote.on_configs_changed)
        self._replication.start()
        self._report_serving()
        await self._lifecycle.unfenced()
        await self._network.start()
        if self.remote is not None:
            self.remote.start()

    async def _make_remote(self, undo: AsyncExitStack) -> RemotePart | None:
        """Tiered storage, where it is switched on: nobody else shall wait for its libraries."""
        if not self.config.remote_log_storage_system_enable:
            return None
        from tidelog.broker.tier.part import RemotePart, RemotePorts

        ports = RemotePorts(
            self._context,
            lambda: self._logs.dynamic_config.current,
            self._logs.replicas,
            self._make_purgatory,
            self.advertised,
            lambda: self._lease.is_confirmed,
        )
        remote = await RemotePart.make(ports)
        undo.push_async_callback(remote.close, REMOTE_ABANDON_TIMEOUT_S)
        return remote

    def _make_purgatory(self, name: str) -> Purgatory:
        return Purgatory(name, self._timers, self._parked)

    def _make_services(self) -> Services:
        config = self.config
        fetch_purgatory, produce_purgatory = map(self._make_purgatory, ("Fetch", "Produce"))
        delete_records_purgatory = self._make_purgatory("DeleteRecords")
        self._logs.leadership.waiting = WaitingRequests(
            fetch_purgatory, produce_purgatory, delete_records_purgatory
        )
        self._coordinators = self._make_coordinators(fetch_purgatory)
        return Services(
            config=config,
            clock=self._clock,
            randomness=self._context.randomness,
            store=self._store,
            logs=self._logs.manager,
            replicas=self._logs.replicas,
            flusher=self._logs.flusher,
            groups=self._coordinators.groups,
            transactions=self._coordinators.transactions,
            group_config=self._coordinators.group_config,
            sessions=FetchSessionCache(
                config.max_incremental_fetch_session_cache_slots,
                lambda: self._context.randomness.randrange(2**31 - 1) + 1,
            ),
            produce_purgatory=produce_purgatory,
            fetch_purgatory=fetch_purgatory,
            delete_records_purgatory=delete_records_purgatory,
            traffic=TopicTraffic(),
            throttles=self._logs.throttles,
            channel=self._access.general,
            forwarder=Forwarder(
                self._access.forwarding,
                self._channel,
                self._clock,
                config.request_timeout_ms,
                self._logs.log_work.wait_until_done,
            ),
            producer_ids=self._producer_ids,
            topic_creation=TopicCreation(self._access.general, config, self._clock),
            verifier=self._transactional_writes.verifier,
            group_transactions=self._transactional_writes.in_groups(
                self._coordinators.groups, fetch_purgatory
            ),
            slices=self._context.slices,
            remote=None if self.remote is None else self.remote.access,
        )

    def _make_transactional_writes(self) -> TransactionalWrites:
        return TransactionalWrites(
            self._logs.replicas,
            self._verification_channel,
            self._clock,
            config=lambda: self._logs.dynamic_config.current,
            image=lambda: self._store.image,
        )

    def _make_broker_channel(self, undo: AsyncExitStack) -> BrokerChannel:
        channel = make_broker_channel(
            self.config, self._dispatcher, self._clock, self._access.environment, lambda: self._store.image
        )
        undo.push_async_callback(channel.close)
        self._store.subscribe(lambda _, image: channel.follow(image))
        return channel

    def _make_coordinators(self, fetch_purgatory: Purgatory) -> Coordinators:
        self._producer_ids = ProducerIds(
            self._access.general, self.config.node_id, lambda: self._lifecycle.broker_epoch, self._clock
        )
        ports = CoordinatorPorts(
            replicas=self._logs.replicas,
            image=lambda: self._store.image,
            fetch_purgatory=fetch_purgatory,
            timers=self._timers,
            clock=self._clock,
            lease=self._lease,
            brokers=self._marker_channel,
            producer_ids=self._producer_ids,
            slices=self._context.slices,
        )
        return Coordinators(self.config, ports)

    def _report_serving(self) -> None:
        services, metrics = self.services, self._context.metrics
        metrics.add_network(self._network)
        metrics.add_channel(self._channel)
        metrics.add_purgatories(
            services.produce_purgatory, services.fetch_purgatory, services.delete_records_purgatory
        )
        metrics.add_parked_memory(self._parked)
        metrics.add_traffic(services.traffic)
        report_groups(metrics, services.groups.group_counts)
        report_transactions(metrics, services.transactions, self._coordinators.markers)
        self._transactional_writes.report_to(metrics)
        report_replicas(metrics, self._logs.replicas, self._replication.fetchers)
        report_cleaning(metrics, self._logs.cleaner, self._logs.manager)

    def _settings_changed(self, config: BrokerConfig) -> None:
        self._connection_limits.follow(config)

    # ---- addresses

    @property
    def ports(self) -> dict[str, int]:
        """The port of each listener."""
        return {name: listener.port for name, listener in self._network.listeners.items()}

    def advertised(self) -> tuple[Listener, ...]:
        """Where clients are told to come."""
        return self.config.advertised(self._context.host_name, self.ports)

    # ---- stop

    async def stop(self, timeout_s: float) -> None:
        """Have leaders move away, answer what is in hand, take nothing more, and close the logs in order."""
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
        await self._logs.cleaner.close()
        if self.remote is not None:
            self.remote.answer_all()
            await self.remote.close(min(timeout_s, REMOTE_CLOSE_TIMEOUT_S))
        await self._transactional_writes.close()
        await self._connection_limits.close()
        await self._network.close(timeout_s)
        await self._coordinators.stop()
        await self._marker_channel.close()
        await self._verification_channel.close()
        await self._channel.close()
        await services.topic_creation.close()
        await self._logs.flusher.close()
        self._driver.stop()
        await self._logs.log_work.close()
        self._logs.close()

    async def abandon(self) -> None:
        """End as after a crash: nothing more is written."""
        await self._lifecycle.close()
        await self._replication.close()
        self._housekeeping.stop()
        await self._logs.cleaner.close()
        if self.remote is not None:
            await self.remote.close(REMOTE_ABANDON_TIMEOUT_S)
        await self._connection_limits.close()
        await self._network.close(timeout_s=0)
        await self._transactional_writes.close()
        await self._coordinators.stop()
        await self._marker_channel.close()
        await self._verification_channel.close()
        await self._channel.close()
        await self._logs.flusher.close()
        self._driver.stop()
        await self._logs.log_work.close()
