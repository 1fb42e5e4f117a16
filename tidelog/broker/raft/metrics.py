"""Metrics of this replica of the metadata quorum, under the names of Kafka's raft-metrics."""

from __future__ import annotations

from typing import Final

from tidelog.broker.observability.metrics import BrokerMetrics, Reading
from tidelog.broker.raft.log import MetadataLog
from tidelog.cluster.quorum.quorum import Quorum
from tidelog.cluster.quorum.states import State

_PREFIX: Final = "kafka_server_raft_metrics_"
_NONE: Final = -1


def report_replica(metrics: BrokerMetrics, quorum: Quorum) -> None:
    """Register the gauges of the replica's state, epoch, leader, vote and voters."""

    def states() -> Reading:
        current = quorum.state
        return {(state.value,): float(state is current) for state in State}

    metrics.gauge(_PREFIX + "current_state", "The state of this replica.", states, ("state",))
    for name, documentation, read in (
        ("current_epoch", "The highest known epoch.", lambda: quorum.epoch),
        ("current_leader", "The leader of this epoch, -1 if unknown.", lambda: _id_of(quorum.leader_id)),
        (
            "current_vote",
            "The node voted for in this epoch, -1 if none.",
            lambda: _id_of(quorum.record.voted_id),
        ),
        ("number_of_voters", "The number of voters.", lambda: len(quorum.voter_ids)),
    ):
        metrics.gauge(_PREFIX + name, documentation, read)


def report_log(metrics: BrokerMetrics, log: MetadataLog) -> None:
    """Register the gauges of the offsets and the last epoch of the metadata log."""
    for name, documentation, read in (
        ("high_watermark", "The high watermark of the metadata log.", lambda: log.high_watermark),
        ("log_end_offset", "The log end offset of the metadata log.", lambda: log.end_offset),
        ("log_end_epoch", "The epoch of the last record of the metadata log.", lambda: log.last_epoch),
    ):
        metrics.gauge(_PREFIX + name, documentation, read)


def _id_of(node_id: int | None) -> int:
    return _NONE if node_id is None else node_id
