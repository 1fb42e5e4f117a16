"""The part of a node that is a broker: registration, logs, coordinators, replication, requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.base.dataclass import dataclass
from tidelog.broker.api.handlers.registry import register_apis
from tidelog.broker.api.handlers.services import Services
from tidelog.broker.channels.forwarding import Forwarder
from tidelog.broker.logs.housekeeping import Housekeeping
from tidelog.broker.metadata.producer_ids import ProducerIds
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.metadata.topic_creation import TopicCreation
from tidelog.broker.node.wiring.broker_channels import BrokerChannels
from tidelog.broker.node.wiring.broker_network import BrokerNetwork
from tidelog.broker.node.wiring.broker_services import ServingParts, create_services, report_serving
from tidelog.broker.node.wiring.client_telemetry import create_telemetry
from tidelog.broker.node.wiring.coordinators import CoordinatorPorts, Coordinators
from tidelog.broker.node.wiring.log_dir_moves import create_log_dir_moves
from tidelog.broker.node.wiring.logs_part import LogsPart
from tidelog.broker.node.wiring.membership import ClusterMembership
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.purgatories import Purgatories
from tidelog.broker.node.wiring.quorum_part import QuorumPart
from tidelog.broker.node.wiring.share_delivery import ShareDelivery
from tidelog.broker.node.wiring.stages import Action, Stage, Stages
from tidelog.broker.node.wiring.topic_subscribers import CoordinatorRoles, TopicSubscriber, coordinators_of
from tidelog.broker.node.wiring.transactional_writes import TransactionalWrites
from tidelog.broker.observability.authentication_metrics import report_authentications
from tidelog.broker.observability.metadata_history import MetadataHistory
from tidelog.broker.quotas.subscription import on_changed_quotas
from tidelog.broker.replication.isr_updates import IsrUpdates
from tidelog.broker.replication.node_replication import NodeReplication, ReplicationPorts
from tidelog.broker.replication.replica_metrics import report_replicas
from tidelog.broker.replication.throttle_metrics import report_throttles

if TYPE_CHECKING:
    from tidelog.broker.tier.tiered_storage import TieredStorage

REMOTE_CLOSE_TIMEOUT_S: Final = 5.0
REMOTE_ABANDON_TIMEOUT_S: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerPart:
    """The running broker. `remote` is None if tiered storage is disabled."""

    services: Services
    network: BrokerNetwork
    remote: TieredStorage | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _RegisteredBroker:
    """A registered broker whose logs are open."""

    context: NodeContext
    quorum: QuorumPart
    network: BrokerNetwork
    membership: ClusterMembership
    purgatories: Purgatories
    isr_updates: IsrUpdates
    logs: LogsPart

    @property
    def store(self) -> MetadataStore:
        """The metadata of this node."""
        return self.quorum.raft.store


async def start_broker(context: NodeContext, quorum: QuorumPart, stages: Stages) -> BrokerPart:
    """Register, open the logs and serve; clients can connect when all other parts have started."""
    broker = await _join(context, quorum, stages)
    parts = await _create_serving_parts(broker, stages)
    replication = _create_replication(broker, parts)
    moves = create_log_dir_moves(context, broker.store, broker.logs, replication)
    services = create_services(context, quorum, broker.network, broker.logs, parts, moves)
    await _serve(broker, parts, services, replication, stages)
    return BrokerPart(services=services, network=broker.network, remote=parts.remote)


async def _join(context: NodeContext, quorum: QuorumPart, stages: Stages) -> _RegisteredBroker:
    """Bind the listeners, whose ports are part of the registration; register, catch up, open the logs."""
    network = BrokerNetwork(context, quorum.authorizer, lambda: quorum.raft.store.image, quorum.request_rates)
    await stages.start(Stage(name="client listeners", start=[network.bind], abandon=[network.close]))
    membership = ClusterMembership(context, quorum, network.advertised())
    lifecycle = membership.lifecycle
    await stages.start(Stage(name="registration", start=[membership.join], abandon=[lifecycle.close]))
    config = context.config
    purgatories = Purgatories(context.clock, config.max_parked_request_bytes)
    isr_updates = IsrUpdates(
        quorum.access.general, config.node_id, lambda: lifecycle.broker_epoch, context.clock
    )
    logs = LogsPart(
        context, quorum.raft.store, lifecycle, network.apply, isr_updates, purgatories.waiting_requests
    )
    stage = Stage(
        name="logs",
        start=[logs.open],
        stop=[logs.log_work.close, logs.close],
        abandon=[logs.log_work.close],
        undo=[logs.log_work.close, logs.close],
    )
    await stages.start(stage)
    return _RegisteredBroker(
        context=context,
        quorum=quorum,
        network=network,
        membership=membership,
        purgatories=purgatories,
        isr_updates=isr_updates,
        logs=logs,
    )


def _create_forwarder(broker: _RegisteredBroker) -> Forwarder:
    context = broker.context
    return Forwarder(
        broker.quorum.access.forwarding,
        broker.network.channel,
        context.slices,
        context.clock,
        context.config.request_timeout_ms,
        broker.logs.log_work.wait_until_done,
    )


async def _create_serving_parts(broker: _RegisteredBroker, stages: Stages) -> ServingParts:
    """Create the parts that handlers use. Connections are closed before the parts that requests need."""
    context, network, logs, store = broker.context, broker.network, broker.logs, broker.store
    config = context.config
    purgatories = broker.purgatories
    stage = Stage(
        name="flushes and timers",
        stop=[logs.flush, logs.flusher.close, purgatories.close],
        abandon=[logs.flusher.close, purgatories.close],
    )
    await stages.start(stage)
    general, forwarder = broker.quorum.access.general, _create_forwarder(broker)
    topic_creation = TopicCreation(general, forwarder, config, context.clock)
    stage = Stage(
        name="requests", stop=[network.channel.close, topic_creation.close], abandon=[network.channel.close]
    )
    await stages.start(stage)
    channels = BrokerChannels(context, network.dispatcher, store)
    await stages.start(Stage(name="broker channels", stop=[channels.close]))
    producer_ids = ProducerIds(
        general, config.node_id, lambda: broker.membership.lifecycle.broker_epoch, context.clock
    )
    coordinators = _create_coordinators(broker, purgatories, channels, topic_creation, producer_ids)
    await stages.start(Stage(name="coordinators", stop=[coordinators.stop]))
    stage = Stage(
        name="connections",
        stop=[lambda: network.close(stages.stop_timeout_s)],
        abandon=[network.close],
    )
    await stages.start(stage)
    transactional_writes = TransactionalWrites(
        logs.replicas,
        channels.verifications,
        context.clock,
        config=lambda: logs.dynamic_config.current,
        image=lambda: store.image,
    )
    await stages.start(Stage(name="transaction verification", stop=[transactional_writes.close]))
    remote = await _open_remote_storage(broker, purgatories, stages)
    access = None if remote is None else remote.access
    share = ShareDelivery(context, purgatories, logs.replicas, coordinators, lambda: store.image, access)
    await stages.start(Stage(name="share partitions", stop=[share.close]))
    telemetry = create_telemetry(context, purgatories.timers)
    if telemetry is not None:
        await stages.start(Stage(name="telemetry", start=[telemetry.start], stop=[telemetry.close]))
        store.subscribe(telemetry.requests.on_metadata_changed)
    return ServingParts(
        purgatories=purgatories,
        forwarder=forwarder,
        topic_creation=topic_creation,
        producer_ids=producer_ids,
        coordinators=coordinators,
        transactional_writes=transactional_writes,
        share=share,
        remote=remote,
        telemetry=telemetry,
    )


def _create_coordinators(
    broker: _RegisteredBroker,
    purgatories: Purgatories,
    channels: BrokerChannels,
    topic_creation: TopicCreation,
    producer_ids: ProducerIds,
) -> Coordinators:
    context, store = broker.context, broker.store
    ports = CoordinatorPorts(
        replicas=broker.logs.replicas,
        image=lambda: store.image,
        current_config=lambda: broker.logs.dynamic_config.current,
        fetch_purgatory=purgatories.fetch,
        timers=purgatories.timers,
        clock=context.clock,
        randomness=context.randomness,
        lease=broker.membership.lease,
        brokers=channels.markers,
        share_state_brokers=channels.share_state,
        topic_creation=topic_creation,
        producer_ids=producer_ids,
        slices=context.slices,
    )
    return Coordinators(context.config, ports)


async def _open_remote_storage(
    broker: _RegisteredBroker, purgatories: Purgatories, stages: Stages
) -> TieredStorage | None:
    """Return tiered storage; None if it is disabled. Its libraries are imported only if it is enabled."""
    context, logs = broker.context, broker.logs
    if not context.config.remote_log_storage_system_enable:
        return None
    from tidelog.broker.tier.tiered_storage import TieredStorage, TieredStoragePorts

    usable_directories = context.log_directory_ids
    ports = TieredStoragePorts(
        fs=context.fs,
        clock=context.clock,
        environment=context.environment,
        security=context.security_of(context.config.metadata_listener),
        metrics=context.metrics,
        executor=context.threads.housekeeping,
        threads=context.ports.threads,
        open_store=context.ports.open_store,
        directory=next(path for path in context.config.log_directories if path in usable_directories),
        config=lambda: logs.dynamic_config.current,
        replicas=logs.replicas,
        create_purgatory=purgatories.create,
        advertised=broker.network.advertised,
        is_confirmed=lambda: broker.membership.lease.is_confirmed,
        on_failure=context.failure.report,
    )
    remote = await TieredStorage.create(ports)
    stage = Stage(
        name="remote storage",
        stop=[
            remote.complete_requests,
            lambda: remote.close(_remote_close_timeout_s(stages)),
        ],
        abandon=[lambda: remote.close(REMOTE_ABANDON_TIMEOUT_S)],
    )
    await stages.start(stage)
    return remote


def _remote_close_timeout_s(stages: Stages) -> float:
    return min(stages.stop_timeout_s, REMOTE_CLOSE_TIMEOUT_S)


def _tiering_stage(remote: TieredStorage | None, stages: Stages) -> Stage:
    """Return the stage that ends copies while this node is still a leader."""
    if remote is None:
        return Stage(name="tiering")
    return Stage(
        name="tiering", stop=[lambda: remote.stop_writing(_remote_close_timeout_s(stages))], abandon=[]
    )


async def _serve(
    broker: _RegisteredBroker,
    parts: ServingParts,
    services: Services,
    replication: NodeReplication,
    stages: Stages,
) -> None:
    """Start the remaining parts, become unfenced, and accept connections."""
    network, logs, remote = broker.network, broker.logs, parts.remote
    moves = services.log_dir_moves
    housekeeping = _create_housekeeping(broker, parts)
    subscriber = TopicSubscriber(services)
    history = MetadataHistory(network.server.log_limit)

    def subscribe_to_metadata() -> None:
        broker.store.subscribe(subscriber.on_metadata_changed)
        broker.store.subscribe(replication.on_metadata_changed)
        broker.store.subscribe(history.on_metadata_changed)
        broker.store.subscribe(parts.producer_ids.on_metadata_changed)
        broker.store.subscribe(on_changed_quotas(network.quotas.update))
        broker.store.subscribe(on_changed_quotas(network.address_quotas.update))
        logs.replicas.add_listener(CoordinatorRoles(coordinators_of(services)))
        logs.replicas.add_listener(parts.share.partitions)
        register_apis(network.dispatcher, services)

    def start_remote_storage() -> None:
        if remote is not None:
            remote.subscribe(broker.store.image)
            remote.delete_data_of_deleted_topics(logs.manager.unused_partitions, broker.store.image)
            broker.store.subscribe(remote.on_configs_changed)

    def report_metrics() -> None:
        _report_metrics(broker, parts, services, replication)

    accept_actions: list[Action] = [network.start, *(() if remote is None else (remote.start,))]
    membership = broker.membership
    for stage in (
        Stage(name="metadata subscriptions", start=[subscribe_to_metadata]),
        Stage(
            name="log upkeep",
            start=[housekeeping.start, logs.cleaner.start],
            stop=[housekeeping.stop, logs.cleaner.close],
        ),
        Stage(name="coordination", start=[parts.coordinators.start, start_remote_storage]),
        Stage(name="parked requests", stop=[parts.purgatories.complete_all], abandon=[]),
        Stage(
            name="replication",
            start=[replication.start, moves.start],
            stop=[moves.close, replication.close, broker.isr_updates.close],
        ),
        Stage(
            name="membership",
            start=[report_metrics, membership.lifecycle.become_unfenced],
            stop=[lambda: membership.leave(stages.stop_timeout_s)],
            abandon=[membership.lifecycle.close],
        ),
        _tiering_stage(remote, stages),
        Stage(name="accepting connections", start=accept_actions),
    ):
        await stages.start(stage)


def _report_metrics(
    broker: _RegisteredBroker, parts: ServingParts, services: Services, replication: NodeReplication
) -> None:
    metrics, logs, server = broker.context.metrics, broker.logs, broker.network.server
    report_serving(metrics, broker.network, logs, parts, services)
    controller_server = broker.quorum.listeners.network
    report_authentications(metrics, (server,) if controller_server is None else (server, controller_server))
    report_replicas(metrics, logs.replicas, replication.fetchers)
    report_throttles(metrics, logs.throttles, broker.context.clock)


def _create_housekeeping(broker: _RegisteredBroker, parts: ServingParts) -> Housekeeping:
    context, logs = broker.context, broker.logs
    return Housekeeping(
        logs.manager,
        logs.flusher,
        context.threads.housekeeping,
        parts.purgatories.timers,
        context.clock,
        context.config,
        logs.replicas.check_isrs,
    )


def _create_replication(broker: _RegisteredBroker, parts: ServingParts) -> NodeReplication:
    context, access, logs = broker.context, broker.quorum.access, broker.logs
    ports = ReplicationPorts(
        config=context.config,
        clock=context.clock,
        environment=access.environment,
        channel=access.general,
        image=lambda: broker.store.image,
        directory_ids=context.directory_ids,
        flush=logs.flusher.flush,
        security=context.security_of(context.config.inter_broker_listener),
    )
    tier = None if parts.remote is None else parts.remote.follower_tier
    return NodeReplication(ports, logs.replicas, logs.throttles, tier)
