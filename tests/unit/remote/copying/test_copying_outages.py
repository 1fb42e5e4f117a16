"""Copies of segments while the store is not available: the waiting copy, its backoff, and its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.tier.tier_cluster import (
    FINISHED,
    PARTITION,
    TIERED,
    TierCluster,
    replicate,
    sealed_segments,
)
from tidelog.remote.ports.storage_manager import RemoteStorageError, StoreUnavailable


def test_kafka_19952_segments_kept_during_an_outage_are_copied_once_and_deleted_locally() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 3)
    cluster.tier.faults.before = 1 << 30
    for _ in range(3):
        with pytest.raises(RemoteStorageError):
            node.run_copy()
        node.log.retention.apply(NOW_MS + 1)
        assert node.log.local_log_start_offset == 0
    sealed_segments(node.log, 1)
    cluster.tier.faults.clear()
    node.run_copy()
    node.run_expiration()
    node.log.retention.apply(NOW_MS + 1)
    assert cluster.ranges() == [(first, first + 9, FINISHED) for first in range(0, 40, 10)]
    assert (node.log.log_start_offset, node.log.local_log_start_offset) == (0, 40)
    cluster.assert_nothing_dangles()


def test_an_outage_uses_one_segment_id() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 2)
    cluster.tier.faults.unavailable = 29
    for _ in range(29):
        with pytest.raises(StoreUnavailable):
            node.run_copy()
        node.run_expiration()  # it does not delete the copy meanwhile
    (waiting,) = cluster.segments()
    assert cluster.ranges() == [(0, 9, "COPY_SEGMENT_STARTED")]
    assert cluster.tier.deleted == []
    node.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED), (10, 19, FINISHED)]
    assert cluster.segments()[0].remote_log_segment_id == waiting.remote_log_segment_id
    assert node.context.in_progress == set()
    cluster.assert_nothing_dangles()


def test_no_copy_is_attempted_before_the_backoff_of_an_outage_has_ended() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 1)
    outage = node.context.outages.copies
    for _ in range(20):
        outage.on_failure("AccessDenied")
    node.run_copy()
    assert cluster.ranges() == []
    assert node.context.figures.partition(PARTITION).copy_lag_segments == 1
    cluster.clock.now_ms += 400_000
    node.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED)]


def test_a_waiting_copy_is_discarded_when_copying_is_disabled() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 1)
    cluster.tier.faults.unavailable = 1
    with pytest.raises(StoreUnavailable):
        node.run_copy()
    cluster.configure(replace(TIERED, remote_log_copy_disable=True, local_retention_ms=-2))
    node.run_copy()
    assert cluster.ranges() == []
    assert node.context.in_progress == set()
    cluster.assert_nothing_dangles()


def test_a_waiting_copy_is_discarded_when_its_records_are_deleted() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 2)
    cluster.tier.faults.unavailable = 1
    with pytest.raises(StoreUnavailable):
        node.run_copy()
    node.log.advance_log_start_offset(10)
    node.run_copy()
    assert cluster.ranges() == [(10, 19, FINISHED)]
    cluster.assert_nothing_dangles()


def test_the_next_leader_deletes_a_waiting_copy_after_it_has_copied_the_records() -> None:
    cluster = TierCluster(2)
    old, new = cluster.nodes
    old.lead(0)
    sealed_segments(old.log, 1)
    replicate(old.log, new.log)
    cluster.tier.faults.unavailable = 1
    with pytest.raises(StoreUnavailable):
        old.run_copy()
    assert old.role is not None and old.copy is not None
    old.role.is_current = False
    old.copy.release()
    assert old.context.in_progress == set()
    new.lead(1)
    new.log.roll(NOW_MS)
    new.run_copy()
    new.run_expiration()
    assert cluster.ranges() == [(0, 9, FINISHED)]
    cluster.assert_nothing_dangles()
