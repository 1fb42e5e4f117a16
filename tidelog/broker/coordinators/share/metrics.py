"""The metrics of the share coordinator; the count of states is Tidelog's own."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.observability.metrics import BrokerMetrics


def report_share_coordinator(metrics: BrokerMetrics, state_count: Callable[[], int]) -> None:
    """Register the metrics of the states of share partitions that this node coordinates."""
    metrics.gauge(
        "kafka_coordinator_share_statecount",
        "States of share partitions of this coordinator.",
        state_count,
    )
