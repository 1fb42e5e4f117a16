"""The metrics of share groups, under Kafka's names of ShareSessionCache and ShareGroupMetrics (KIP-932)."""

from __future__ import annotations

from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.share_partitions.member_sessions import MemberSessions
from tidelog.broker.share_partitions.registry import SharePartitions
from tidelog.protocol.share_groups.acknowledge_type import AcknowledgeType


def report_share_delivery(
    metrics: BrokerMetrics, sessions: MemberSessions, partitions: SharePartitions
) -> None:
    """Register the numbers of sessions, share partitions and records, and the acknowledgements by type."""
    prefix = "kafka_server_sharesessioncache_share"
    metrics.gauge(prefix + "sessions", "Open share sessions.", lambda: len(sessions.sessions))
    metrics.gauge(
        prefix + "partitions", "Partitions in open share sessions.", lambda: sessions.sessions.partition_count
    )
    metrics.counter(
        prefix + "sessionevictions",
        "Share sessions that ended with their connection.",
        lambda: sessions.disconnected_count,
    )
    prefix, counters = "kafka_server_sharegroupmetrics_", partitions.counters
    metrics.gauge(prefix + "sharepartitions", "Share partitions of this node.", lambda: len(partitions))
    metrics.gauge(
        prefix + "inflightmessages", "Records in flight to share groups.", lambda: partitions.in_flight_count
    )
    metrics.counter(
        prefix + "recordacknowledgements",
        "Acknowledged records, by type.",
        lambda: {(each.name.lower(),): counters.acknowledgements[each] for each in AcknowledgeType},
        ("acktype",),
    )
    metrics.counter(
        prefix + "acquisitionlocktimeouts", "Expired acquisition locks.", lambda: counters.expired_locks
    )
    metrics.counter(
        prefix + "failedstatewrites", "Changes that could not be stored.", lambda: counters.failed_writes
    )
