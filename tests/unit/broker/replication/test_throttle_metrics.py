"""The metrics of replication quotas."""

from __future__ import annotations

from tests.support.clocks.manual_clock import ManualClock
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.replication.throttle_metrics import report_throttles
from tidelog.broker.replication.throttles import ReplicationThrottles
from tidelog.protocol.ids import TopicPartition


def test_the_rates_of_throttled_replicas_are_reported() -> None:
    clock, metrics = ManualClock(), BrokerMetrics()
    throttles = ReplicationThrottles(1, window_ms=1_000, window_count=11)
    report_throttles(metrics, throttles, clock)
    throttles.follower.set_topic("moved", None)
    now_ms = clock.monotonic_ms()
    throttles.follower.record(TopicPartition("moved", 0), 5_000, now_ms)
    throttles.follower.record(TopicPartition("other", 0), 7_000, now_ms)
    throttles.leader.record(TopicPartition("moved", 0), 9_000, now_ms)
    throttles.moves.record(TopicPartition("any", 0), 3_000, now_ms)
    clock.advance_ns(2_000 * 1_000_000)
    lines = Exposition(metrics).text("")[0].decode().splitlines()
    assert "kafka_server_followerreplication_byte_rate 2500.0" in lines
    assert "kafka_server_leaderreplication_byte_rate 0.0" in lines
    assert "kafka_server_alterlogdirsreplication_byte_rate 1500.0" in lines
