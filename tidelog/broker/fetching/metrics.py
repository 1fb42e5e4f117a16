"""The metrics of fetch sessions, under Kafka's names of FetchSessionCache (KIP-227)."""

from __future__ import annotations

from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.observability.metrics import BrokerMetrics


def report_fetch_sessions(metrics: BrokerMetrics, sessions: FetchSessionCache) -> None:
    """Register the number of open sessions, and of the partitions in them."""
    prefix = "kafka_server_fetchsessioncache_numincrementalfetch"
    metrics.gauge(prefix + "sessions", "Open fetch sessions.", lambda: len(sessions))
    metrics.gauge(
        prefix + "partitionscached",
        "Partitions in open fetch sessions.",
        lambda: sessions.partition_count,
    )
