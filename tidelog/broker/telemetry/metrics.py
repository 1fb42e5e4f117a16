"""The metrics of client telemetry, under Kafka's names of the group client-metrics (KIP-714)."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.telemetry.client_series import ClientSeries
from tidelog.broker.telemetry.client_telemetry import ClientTelemetry
from tidelog.broker.telemetry.forwarding import Forwarding


def report_client_telemetry(
    metrics: BrokerMetrics,
    telemetry: ClientTelemetry,
    series: ClientSeries | None,
    forwardings: Sequence[Forwarding],
) -> None:
    """Register the numbers of instances and pushes, and the metrics of the clients themselves."""
    prefix, counters = "kafka_server_clientmetrics_", telemetry.counters
    metrics.gauge(prefix + "instances", "Clients with telemetry.", lambda: len(telemetry.instances))
    metrics.counter(
        prefix + "unknown_subscription_request",
        "Pushes with an old subscription.",
        lambda: counters.unknown_subscriptions,
    )
    metrics.counter(
        prefix + "throttle",
        "Requests of clients before their interval had passed.",
        lambda: counters.throttled,
    )
    metrics.counter(prefix + "plugin_export", "Pushes that receivers accepted.", lambda: counters.pushes)
    metrics.counter(
        prefix + "plugin_error", "Pushes whose metrics cannot be decoded.", lambda: counters.failed_pushes
    )
    metrics.counter(
        "tidelog_telemetry_pushes_dropped",
        "Pushes that were not forwarded to a collector or file.",
        lambda: sum(each.dropped_count for each in forwardings),
    )
    if series is not None:
        metrics.gauge("tidelog_telemetry_series", "Series of clients.", lambda: series.count)
        metrics.counter(
            "tidelog_telemetry_series_rejected",
            "Values of clients that were not stored.",
            lambda: series.rejected_count,
        )
        metrics.add_source(series.families)
