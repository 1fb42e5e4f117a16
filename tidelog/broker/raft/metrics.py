"""What is reported of the metadata quorum, under the names of Kafka's raft-metrics and KafkaController."""

from __future__ import annotations

from tidelog.broker.controller.metrics import report_cluster
from tidelog.broker.observability.metrics import BrokerMetrics, Reading
from tidelog.broker.raft.raft_node import RaftNode
from tidelog.cluster.quorum.quorum import Quorum
from tidelog.cluster.quorum.states import State

_NONE = -1


def report_quorum(metrics: BrokerMetrics, raft: RaftNode) -> None:
    """Have `metrics` report the state of this replica, of its log, and of the controller on it."""
    machine = raft.machine
    if isinstance(machine, Quorum):
        _report_state(metrics, machine)
        report_cluster(metrics, lambda: raft.store.image)
    _report_log(metrics, raft)
    _report_controller(metrics, raft)


def _report_state(metrics: BrokerMetrics, quorum: Quorum) -> None:
    prefix = "kafka_server_raft_metrics_"

    def states() -> Reading:
        present = quorum.state
        return {(state.value,): float(state is present) for state in State}

    metrics.gauge(prefix + "current_state", "The state of this replica.", states, ("state",))
    for name, documentation, read in (
        ("current_epoch", "The highest epoch that is known.", lambda: quorum.epoch),
        ("current_leader", "Who leads it, -1 when that is not known.", lambda: _or_none(quorum.leader_id)),
        ("current_vote", "Who got the vote of it, -1 for nobody.", lambda: _or_none(quorum.record.voted_id)),
        ("number_of_voters", "Controllers that vote.", lambda: len(quorum.voter_ids)),
    ):
        metrics.gauge(prefix + name, documentation, read)


def _report_log(metrics: BrokerMetrics, raft: RaftNode) -> None:
    log, snapshotter, store = raft.log, raft.snapshotter, raft.store
    prefix = "kafka_server_raft_metrics_"
    for name, documentation, read in (
        ("high_watermark", "Up to where the metadata log is committed.", lambda: log.high_watermark),
        ("log_end_offset", "Where the metadata log ends.", lambda: log.end_offset),
        ("log_end_epoch", "The epoch of its last record.", lambda: log.last_epoch),
    ):
        metrics.gauge(prefix + name, documentation, read)
    metrics.gauge(
        "kafka_server_broker_metadata_metrics_last_applied_record_offset",
        "The last offset of the metadata that this node knows.",
        lambda: store.image.offset,
    )
    prefix = "kafka_server_snapshotemitter_"
    metrics.counter(prefix + "generated", "Metadata snapshots written.", lambda: snapshotter.written)
    metrics.counter(prefix + "errors", "Metadata snapshots that failed.", lambda: snapshotter.errors)
    metrics.counter(
        "kafka_server_metadataloader_handleloadsnapshot",
        "Metadata snapshots taken over.",
        lambda: store.snapshots_loaded,
    )


def _report_controller(metrics: BrokerMetrics, raft: RaftNode) -> None:
    store = raft.store
    prefix = "kafka_controller_kafkacontroller_"
    metrics.gauge(
        prefix + "activecontrollercount",
        "1 on the active controller, else 0.",
        lambda: float(store.active_epoch is not None),
    )
    metrics.gauge(
        prefix + "lastcommittedrecordoffset", "Up to where it is committed.", lambda: raft.log.high_watermark
    )
    metrics.counter(
        prefix + "newactivecontrollers",
        "Times that the active controller changed.",
        lambda: store.leader_changes,
    )


def _or_none(node_id: int | None) -> int:
    return _NONE if node_id is None else node_id
