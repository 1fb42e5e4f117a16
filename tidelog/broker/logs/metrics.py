"""The metrics of flushes, under Kafka's name of LogFlushStats."""

from __future__ import annotations

from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.observability.metrics import BrokerMetrics


def report_flushes(metrics: BrokerMetrics, flusher: Flusher) -> None:
    """Register the times of the flushes of partition logs."""
    metrics.histogram(
        "kafka_log_logflushstats_logflushtime_seconds",
        "Time to write the data of a partition log to the disk.",
        lambda: {(): flusher.times},
    )
