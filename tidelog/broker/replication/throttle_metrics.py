"""The metrics of the replication quotas, under Kafka's names.

These are LeaderReplication, FollowerReplication and AlterLogDirsReplication.
"""

from __future__ import annotations

from functools import partial

from tidelog.base.clock import Clock
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.replication.throttles import ReplicationThrottles
from tidelog.cluster.replication.throttle import ReplicationQuota


def report_throttles(metrics: BrokerMetrics, throttles: ReplicationThrottles, clock: Clock) -> None:
    """Register the rate of each direction."""

    def read(quota: ReplicationQuota) -> float:
        return quota.bytes_per_s(clock.monotonic_ms())

    for name, documentation, quota in (
        ("leader", "Bytes per second that throttled replicas fetch from this node.", throttles.leader),
        ("follower", "Bytes per second that throttled replicas of this node fetch.", throttles.follower),
        ("alterlogdirs", "Bytes per second that move between the log directories.", throttles.moves),
    ):
        metrics.gauge(f"kafka_server_{name}replication_byte_rate", documentation, partial(read, quota))
