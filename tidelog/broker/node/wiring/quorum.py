"""Creates the node's replica of the metadata quorum from the configuration."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.channels.node_connections import node_connection_settings
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.projection import projection
from tidelog.broker.config.quorum_config import (
    bootstrap_servers,
    controller_listener_name,
    quorum_settings,
    static_voters,
)
from tidelog.broker.controller.metrics import report_cluster, report_controller
from tidelog.broker.metadata.formatting import read_bootstrap
from tidelog.broker.metadata.metrics import report_metadata
from tidelog.broker.metadata.snapshotter import SnapshotSettings
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.raft_node import RaftConfig, RaftNode, RaftPorts
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.raft.log import MetadataLog, MetadataLogConfig
from tidelog.broker.raft.metrics import report_log, report_replica
from tidelog.cluster.controller.bootstrap import bootstrap_records
from tidelog.cluster.quorum.config import ReplicaConfig
from tidelog.cluster.quorum.quorum import Quorum
from tidelog.cluster.quorum.quorum_record import QuorumRecord
from tidelog.cluster.quorum.voter_set import Endpoint, ReplicaKey, VoterSet
from tidelog.protocol.schema import MetadataRecord


def create_raft_node(context: NodeContext, endpoints: tuple[Endpoint, ...]) -> RaftNode:
    """Open this node's replica; `endpoints` are the addresses of its listeners for controllers."""
    config = context.config
    directory = config.metadata_log_directory

    def create_quorum(log: MetadataLog, record: QuorumRecord | None) -> Quorum:
        name = controller_listener_name(config)
        replica_config = ReplicaConfig(
            key=ReplicaKey(config.node_id, context.directory_ids[directory]),
            cluster_id=context.cluster_id,
            settings=quorum_settings(config),
            random_below=context.randomness.randrange,
            wall_ms=context.clock.wall_ms,
            static_voters=static_voters(config) or VoterSet(),
            endpoints=endpoints,
            bootstrap_servers=tuple(Endpoint(name, host, port) for host, port in bootstrap_servers(config)),
        )
        return Quorum(replica_config, log, record, context.clock.monotonic_ms())

    def first_records() -> Sequence[MetadataRecord]:
        return bootstrap_records(config.min_insync_replicas, read_bootstrap(context.fs, directory))

    ports = RaftPorts(
        fs=context.fs,
        clock=context.clock,
        environment=context.environment,
        connections=node_connection_settings(
            config,
            security=context.security_of(controller_listener_name(config)),
            request_timeout_ms=config.controller_quorum_request_timeout_ms,
        ),
        executor=context.threads.quorum,
        slices=context.slices,
    )
    return RaftNode(
        _raft_config(config, context.cluster_id),
        ports,
        create_machine=create_quorum,
        first_records=first_records,
        on_fatal=lambda error: context.failure.report(f"the metadata quorum has ended: {error}"),
    )


def report_quorum(metrics: BrokerMetrics, raft: RaftNode) -> None:
    """Register the metrics of this replica, its log, its metadata and its controller."""
    if isinstance(raft.machine, Quorum):
        report_replica(metrics, raft.machine)
        report_cluster(metrics, lambda: raft.store.image)
    report_log(metrics, raft.log)
    report_metadata(metrics, raft.store, raft.snapshotter)
    report_controller(metrics, raft.store, raft.log)


def _raft_config(config: BrokerConfig, cluster_id: str) -> RaftConfig:
    return RaftConfig(
        node_id=config.node_id,
        cluster_id=cluster_id,
        directory=config.metadata_log_directory,
        log=projection(
            config,
            MetadataLogConfig,
            metadata_log_segment_bytes=(
                config.internal_metadata_log_segment_bytes or config.metadata_log_segment_bytes
            ),
        ),
        snapshots=projection(config, SnapshotSettings),
        listeners=tuple(name.upper() for name in config.controller_listener_names),
    )
