"""The replication throttle of a broker."""

from __future__ import annotations

from tidelog.cluster.replication.throttle import ReplicationQuota, throttled_indices
from tidelog.protocol.ids import TopicPartition

MOVED, OTHER = TopicPartition("moved", 0), TopicPartition("other", 0)


def quota(rate: int | None) -> ReplicationQuota:
    replication_quota = ReplicationQuota(window_ms=1_000, window_count=11)
    replication_quota.rate = rate
    replication_quota.set_topic("moved", frozenset({0}))
    return replication_quota


def test_throttled_replicas_are_pairs_of_partition_and_broker_or_all() -> None:
    assert throttled_indices(("0:1", "1:2", "3:1"), 1) == {0, 3}
    assert throttled_indices(("*",), 1) is None
    assert throttled_indices((), 1) == frozenset()


def test_a_partition_is_throttled_by_index_or_with_its_whole_topic() -> None:
    limited = quota(1)
    assert limited.is_throttled(MOVED) and not limited.is_throttled(OTHER)
    assert not limited.is_throttled(TopicPartition("moved", 1))
    limited.set_topic("moved", None)
    assert limited.is_throttled(TopicPartition("moved", 1))
    limited.set_topic("moved", frozenset())
    assert not limited.is_throttled(MOVED)


def test_a_burst_exceeds_the_rate_until_time_passes() -> None:
    limited = quota(1_000)
    limited.record(MOVED, 3_000, 0)
    assert limited.is_exceeded(0)
    assert limited.is_exceeded(2_999)
    assert not limited.is_exceeded(3_000)


def test_bytes_of_partitions_that_are_not_throttled_do_not_count() -> None:
    limited = quota(1_000)
    limited.record(OTHER, 1_000_000, 0)
    assert not limited.is_exceeded(0)


def test_nothing_is_throttled_without_a_rate() -> None:
    limited = quota(None)
    limited.record(MOVED, 1_000_000, 0)
    assert not limited.is_exceeded(0)


def test_bytes_older_than_the_windows_do_not_count() -> None:
    limited = quota(1_000)
    limited.record(MOVED, 1_000_000, 0)
    assert limited.is_exceeded(10_999)
    assert not limited.is_exceeded(11_000)
