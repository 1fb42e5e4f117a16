"""The services that handlers use, from the parts of a broker, and the metrics of these parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.base.dataclass import dataclass
from tidelog.broker.api.handlers.services import Services
from tidelog.broker.channels.forwarding import Forwarder
from tidelog.broker.coordinators.groups.metrics import (
    report_consumer_groups,
    report_groups,
    report_lags,
    report_rebalances,
)
from tidelog.broker.coordinators.share.metrics import report_share_coordinator
from tidelog.broker.coordinators.transactions.metrics import report_transactions
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.fetching.metrics import report_fetch_sessions
from tidelog.broker.logs.cleaning.metrics import report_cleaning
from tidelog.broker.logs.metrics import report_flushes
from tidelog.broker.metadata.producer_ids import ProducerIds
from tidelog.broker.metadata.topic_creation import TopicCreation
from tidelog.broker.node.wiring.broker_network import BrokerNetwork
from tidelog.broker.node.wiring.client_telemetry import TelemetryOfClients
from tidelog.broker.node.wiring.coordinators import Coordinators
from tidelog.broker.node.wiring.logs_part import LogsPart
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.purgatories import Purgatories
from tidelog.broker.node.wiring.quorum_part import QuorumPart
from tidelog.broker.node.wiring.share_delivery import ShareDelivery
from tidelog.broker.node.wiring.transactional_writes import TransactionalWrites
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.quotas.metrics import report_connection_rates, report_request_quotas
from tidelog.broker.replication.log_dir_moves import LogDirMoves
from tidelog.broker.share_partitions.metrics import report_share_delivery

if TYPE_CHECKING:
    from tidelog.broker.tier.tiered_storage import TieredStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingParts:
    """The parts of a broker that requests use; `remote` is None if tiered storage is disabled.

    `telemetry` is None if no receiver of the metrics of clients is configured.
    """

    purgatories: Purgatories
    forwarder: Forwarder
    topic_creation: TopicCreation
    producer_ids: ProducerIds
    coordinators: Coordinators
    transactional_writes: TransactionalWrites
    share: ShareDelivery
    remote: TieredStorage | None
    telemetry: TelemetryOfClients | None


def create_services(
    context: NodeContext,
    quorum: QuorumPart,
    network: BrokerNetwork,
    logs: LogsPart,
    parts: ServingParts,
    log_dir_moves: LogDirMoves,
) -> Services:
    """Return the services of the handlers."""
    config, purgatories, coordinators = context.config, parts.purgatories, parts.coordinators
    return Services(
        config=config,
        clock=context.clock,
        store=quorum.raft.store,
        logs=logs.manager,
        replicas=logs.replicas,
        flusher=logs.flusher,
        groups=coordinators.groups,
        transactions=coordinators.transactions,
        share_coordinator=coordinators.share,
        share_persister=coordinators.share_persister,
        share_partitions=parts.share.partitions,
        share_sessions=parts.share.sessions,
        sessions=FetchSessionCache(
            config.max_incremental_fetch_session_cache_slots,
            lambda: context.randomness.randrange(2**31 - 1) + 1,
        ),
        produce_purgatory=purgatories.produce,
        fetch_purgatory=purgatories.fetch,
        readers=purgatories.readers,
        delete_records_purgatory=purgatories.delete_records,
        traffic=TopicTraffic(config.metrics_topics_max),
        throttles=logs.throttles,
        forwarder=parts.forwarder,
        producer_ids=parts.producer_ids,
        topic_creation=parts.topic_creation,
        verifier=parts.transactional_writes.verifier,
        group_transactions=parts.transactional_writes.group_transactions(
            coordinators.groups, purgatories.fetch
        ),
        slices=context.slices,
        check_certificates=network.certificates.check,
        authorizer=quorum.authorizer,
        log_dir_moves=log_dir_moves,
        remote=None if parts.remote is None else parts.remote.access,
        client_telemetry=None if parts.telemetry is None else parts.telemetry.requests,
    )


def report_serving(
    metrics: BrokerMetrics, network: BrokerNetwork, logs: LogsPart, parts: ServingParts, services: Services
) -> None:
    """Register the metrics of the network, of waiting requests, coordinators and log cleaning."""
    metrics.add_network(network.server)
    metrics.add_channel(network.channel)
    report_request_quotas(metrics, network.quotas, network.server.counters)
    report_connection_rates(metrics, network.server.connection_rates, network.server.clock)
    parts.purgatories.report_to(metrics)
    metrics.add_traffic(services.traffic)
    report_fetch_sessions(metrics, services.sessions)
    metrics.add_slices(services.slices)
    report_groups(metrics, services.groups.group_counts)
    groups = services.groups
    report_consumer_groups(
        metrics,
        groups.group_counts,
        groups.consumer_group_counts,
        groups.share_groups.state_counts,
        groups.streams_groups.state_counts,
    )
    report_rebalances(metrics, groups.rebalances)
    report_share_delivery(metrics, services.share_sessions, services.share_partitions)
    report_share_coordinator(metrics, services.share_coordinator.state_count)
    report_lags(
        metrics, services.groups, logs.replicas.high_watermark, services.config.metrics_group_offsets_max
    )
    report_flushes(metrics, logs.flusher)
    report_transactions(metrics, services.transactions, parts.coordinators.markers)
    parts.transactional_writes.report_to(metrics)
    if parts.telemetry is not None:
        parts.telemetry.report_to(metrics)
    report_cleaning(metrics, logs.cleaner, logs.manager)
