"""Expiration of remote segments by a leader: order, resumption, retained segments."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.tier.tier_cluster import (
    FINISHED,
    PARTITION,
    TIERED,
    TierCluster,
    TierNode,
    produce,
    replicate,
    run_to_end,
    sealed_segments,
)
from tidelog.protocol.ids import Offset
from tidelog.remote.expiry import task as expiration_task
from tidelog.remote.expiry.plan import plan_expiration
from tidelog.remote.expiry.segment_deletion import delete_undeleted_copies
from tidelog.remote.metadata import excerpt
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.storage.log.truncation import RemoteState


def copy_segments(cluster: TierCluster, segments: int, *, locally: bool = False) -> TierNode:
    """Return a leader with `segments` remote segments of ten records, no longer on local disk."""
    node = cluster.nodes[0]
    node.lead(0)
    sealed_segments(node.log, segments)
    node.run_copy()
    if not locally:
        node.log.retention.apply(NOW_MS + 1)
        assert node.log.local_log_start_offset == segments * 10
    return node


def start_offsets(cluster: TierCluster) -> list[Offset]:
    return [start for start, _, _ in cluster.ranges()]


def test_segments_to_which_another_topic_refers_are_deleted_after_it() -> None:
    cluster = TierCluster(config=replace(TIERED, retention_ms=1000))
    node = copy_segments(cluster, 3)
    first, *others = node.context.metadata.list_remote_log_segments(PARTITION)
    until_ms: int | None = first.max_timestamp_ms
    node.context.referenced_until_ms = lambda topic_id: until_ms if topic_id == PARTITION.topic_id else None
    cluster.clock.now_ms += 10_000_000
    node.run_expiration()
    assert node.log.log_start_offset == 30
    assert set(cluster.tier.copies) == {
        each.remote_log_segment_id.id
        for each in (first, *others)
        if each.max_timestamp_ms <= first.max_timestamp_ms
    }
    until_ms = None
    node.run_expiration()
    assert not cluster.tier.copies


def test_expired_segments_are_deleted_after_the_log_start_moved() -> None:
    cluster = TierCluster(config=replace(TIERED, retention_ms=1000))
    node = copy_segments(cluster, 3)
    reached_points: list[tuple[FaultPoint, Offset, int]] = []
    node.context.faults = lambda point: reached_points.append(
        (point, node.log.log_start_offset, len(cluster.tier.copies))
    )
    node.run_expiration()
    assert reached_points == []
    cluster.clock.now_ms += 1000
    node.run_expiration()
    assert node.log.log_start_offset == 30
    assert cluster.ranges() == []
    assert cluster.tier.copies == {}
    assert reached_points[0] == (FaultPoint.BEFORE_LOG_START_MOVED, 0, 3)
    assert reached_points[1] == (FaultPoint.AFTER_LOG_START_MOVED, 30, 3)
    assert [point for point, _, _ in reached_points[2:6]] == [
        FaultPoint.BEFORE_DELETE_STARTED,
        FaultPoint.AFTER_DELETE_STARTED,
        FaultPoint.AFTER_DELETE_STORED,
        FaultPoint.AFTER_DELETE_FINISHED,
    ]


def count_calls(monkeypatch: pytest.MonkeyPatch, node: TierNode, name: str) -> list[None]:
    """Return a list that gets an element for each call of this method of the node's metadata."""
    calls: list[None] = []
    method = getattr(node.metadata, name)

    def count_call(*args: Any) -> Any:
        calls.append(None)
        return method(*args)

    monkeypatch.setattr(node.metadata, name, count_call)
    return calls


def test_segments_are_not_read_again_without_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = TierCluster(config=replace(TIERED, retention_ms=1000))
    node = copy_segments(cluster, 3)
    reads = count_calls(monkeypatch, node, "segment_excerpt")
    node.run_expiration()
    produce(node.log, 3)
    for _ in range(5):
        node.run_expiration()
    assert len(reads) == 1
    sealed_segments(node.log, 1)
    node.run_copy()
    node.run_expiration()
    assert len(reads) == 2
    cluster.clock.now_ms += 1000
    node.run_expiration()
    assert node.log.log_start_offset >= 30


def test_all_segments_are_listed_only_if_more_expire_than_an_excerpt_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(excerpt, "OLDEST_MAX", 2)
    cluster = TierCluster(config=replace(TIERED, retention_bytes=10**9))
    node = copy_segments(cluster, 5)
    size = next(node.metadata.list_remote_log_segments(PARTITION)).segment_size_bytes
    listings = count_calls(monkeypatch, node, "list_remote_log_segments")
    node.run_expiration()
    cluster.configure(replace(TIERED, retention_bytes=4 * size))
    node.run_expiration()
    assert start_offsets(cluster) == [10, 20, 30, 40]
    assert not listings
    figures = node.context.figures.partition(PARTITION)
    assert (figures.metadata_count, figures.log_size_bytes) == (5, 5 * size)
    cluster.configure(replace(TIERED, retention_bytes=size))
    node.run_expiration()
    assert start_offsets(cluster) == [40]
    assert len(listings) == 1


def test_retention_bytes_counts_records_that_are_local_and_remote_once() -> None:
    cluster = TierCluster()
    node = copy_segments(cluster, 4, locally=True)
    size = node.log.segments.first.size_bytes
    produce(node.log, 10)  # only local
    node.log.retention.apply(NOW_MS)
    cluster.configure(
        replace(TIERED, retention_bytes=5 * size, local_retention_bytes=-1, local_retention_ms=-1)
    )
    node.run_expiration()
    assert start_offsets(cluster) == [0, 10, 20, 30]
    cluster.configure(replace(TIERED, retention_bytes=3 * size, local_retention_ms=-1))
    node.run_expiration()
    assert start_offsets(cluster) == [20, 30]
    assert node.log.log_start_offset == 20


def test_kafka_20732_a_new_leader_does_not_count_its_log_twice_before_its_first_copy_run() -> None:
    cluster = TierCluster(2)
    first, second = cluster.nodes
    copy_segments(cluster, 4, locally=True)
    replicate(first.log, second.log)
    second.log.roll(NOW_MS)
    size = first.log.segments.first.size_bytes
    cluster.configure(replace(TIERED, retention_bytes=4 * size, local_retention_ms=-1))
    second.lead(1)
    assert not second.log.remote_border.is_remote_log_known
    # Its expiration runs before any copy: the four segments are both local and remote, and within bounds.
    second.run_expiration()
    second.log.retention.apply(NOW_MS)
    assert second.log.log_start_offset == 0
    assert start_offsets(cluster) == [0, 10, 20, 30]


def test_remote_segments_expire_while_copying_is_disabled() -> None:
    cluster = TierCluster()
    copy_segments(cluster, 4)
    cluster.configure(replace(TIERED, remote_log_copy_disable=True, local_retention_ms=-2, retention_ms=500))
    node = cluster.nodes[0]
    node.lead(1)
    cluster.clock.now_ms += 500
    node.run_expiration()
    assert cluster.ranges() == []
    assert node.log.log_start_offset == 40


def test_delete_records_deletes_remote_segments_below_the_log_start() -> None:
    cluster = TierCluster()
    node = copy_segments(cluster, 3)
    node.log.advance_log_start_offset(15)
    node.run_expiration()
    assert start_offsets(cluster) == [10, 20]
    node.log.advance_log_start_offset(30)
    node.run_expiration()
    assert start_offsets(cluster) == []


def test_a_failed_deletion_is_retried_and_others_continue() -> None:
    cluster = TierCluster(config=replace(TIERED, retention_ms=0))
    node = copy_segments(cluster, 4)
    cluster.tier.faults.half_way = 1
    with pytest.raises(RemoteStorageError):
        node.run_expiration()
    assert cluster.ranges() == [(0, 9, "DELETE_SEGMENT_STARTED")]
    figures, counters = node.context.figures.partition(PARTITION), node.context.figures.topics["events"]
    assert (figures.delete_lag_segments, counters.delete_errors, counters.delete_requests) == (1, 1, 4)
    assert figures.delete_lag_bytes > 0
    node.run_expiration()
    assert cluster.ranges() == []
    assert (figures.delete_lag_segments, figures.delete_lag_bytes) == (0, 0)


def test_an_unavailable_object_store_ends_the_run() -> None:
    cluster = TierCluster(config=replace(TIERED, retention_ms=0))
    node = copy_segments(cluster, 8)
    cluster.tier.faults.before = 100
    with pytest.raises(RemoteStorageError):
        node.run_expiration()
    assert cluster.tier.faults.before == 97
    # The log start has moved nevertheless: segments in deletion are not read.
    assert node.log.log_start_offset == 80
    cluster.tier.faults.clear()
    node.run_expiration()
    cluster.assert_nothing_dangles()
    assert cluster.ranges() == []


def test_segments_that_cannot_be_deleted_do_not_delay_others() -> None:
    """For example, locked objects, or custom metadata that cannot be decoded."""
    cluster = TierCluster(config=replace(TIERED, retention_ms=1000))
    node = copy_segments(cluster, 8)
    locked = {each.remote_log_segment_id.id for each in cluster.segments()[:4]}
    delete = cluster.tier.delete_log_segment_data

    def refuse(metadata: RemoteLogSegmentMetadata) -> None:
        if metadata.remote_log_segment_id.id in locked:
            raise RemoteStorageError("the object is locked")
        delete(metadata)

    cluster.tier.delete_log_segment_data = refuse  # type: ignore[method-assign]
    cluster.clock.now_ms += 1000
    for _ in range(3):
        with pytest.raises(RemoteStorageError):
            node.run_expiration()
    assert cluster.tier.copies.keys() == locked


def test_dangling_copies_that_cannot_be_deleted_do_not_delay_others() -> None:
    cluster = TierCluster()
    node = copy_segments(cluster, 4)
    node.context.undeleted_copies.update({each.remote_log_segment_id.id: each for each in cluster.segments()})
    locked, delete = next(iter(node.context.undeleted_copies)), cluster.tier.delete_log_segment_data

    def refuse(metadata: RemoteLogSegmentMetadata) -> None:
        if metadata.remote_log_segment_id.id == locked:
            raise RemoteStorageError("the object is locked")
        delete(metadata)

    cluster.tier.delete_log_segment_data = refuse  # type: ignore[method-assign]
    for _ in range(2):
        run_to_end(delete_undeleted_copies(node.context))
    assert node.context.undeleted_copies.keys() == cluster.tier.copies.keys() == {locked}


def test_a_new_leader_finishes_the_deletion_of_the_former_one() -> None:
    cluster = TierCluster(2, replace(TIERED, retention_ms=0))
    old, new = cluster.nodes
    old.lead(0)
    sealed_segments(old.log, 3)
    replicate(old.log, new.log)
    old.run_copy()
    assert old.expiration is not None and old.role is not None
    run = old.expiration.run()
    while "DELETE_SEGMENT_STARTED" not in [state for _, _, state in cluster.ranges()]:
        run.send(None)
    run.close()  # the node crashes here
    assert old.log.log_start_offset == 30
    new.lead(1)
    new.log.roll(NOW_MS)
    cluster.configure(TIERED)  # retention has no limit any more
    new.run_copy()
    new.log.retention.apply(NOW_MS + 1)
    new.run_expiration()
    # The first segment is deleted; it is below the log start offset, which is readable.
    assert [each[:2] for each in cluster.ranges()] == [(10, 19), (20, 29)]
    assert new.log.log_start_offset == 10
    cluster.assert_nothing_dangles()


def test_a_deposed_leader_deletes_no_further_segment() -> None:
    cluster = TierCluster(config=replace(TIERED, retention_ms=0))
    node = copy_segments(cluster, 3)
    assert node.expiration is not None and node.role is not None
    run = node.expiration.run()
    while len(cluster.ranges()) == 3:
        run.send(None)
    node.role.is_current = False
    run_to_end(run)
    assert start_offsets(cluster) == [10, 20]


def test_kafka_15414_unreachable_epochs_are_deleted_after_unclean_election_of_an_empty_replica() -> None:
    cluster = TierCluster(2)
    old, new = cluster.nodes
    old.lead(0)
    sealed_segments(old.log, 3, epoch=0)
    old.run_copy()
    # None of the records was replicated: the other replica becomes leader with an empty log.
    new.lead(5)
    sealed_segments(new.log, 2, epoch=5, size=4)
    new.run_copy()
    assert {each[:2] for each in cluster.ranges()} == {(0, 3), (0, 9), (4, 7), (10, 19), (20, 29)}
    new.run_expiration()
    assert [each[:2] for each in cluster.ranges()] == [(0, 3), (4, 7)]
    assert new.log.log_start_offset == 0
    cluster.assert_nothing_dangles()


def test_after_unclean_election_of_a_shorter_replica_only_shared_segments_are_read() -> None:
    cluster = TierCluster(2)
    old, new = cluster.nodes
    old.lead(0)
    sealed_segments(old.log, 2, epoch=0)
    replicate(old.log, new.log)
    sealed_segments(old.log, 2, epoch=0)
    old.run_copy()
    new.lead(3)
    sealed_segments(new.log, 4, epoch=3, size=5)
    new.run_copy()
    new.run_expiration()
    # 0-19 is common. 20-39 of epoch 0 is not part of the new log, which counts only its own segments.
    segments = {each[:2] for each in cluster.ranges()}
    assert {(0, 9), (10, 19)} <= segments
    assert new.log.log_start_offset == 0
    assert new.log.highest_offset_in_remote_storage == 39
    for offset in range(40):
        epoch = new.log.leader_epochs.epoch_for_offset(offset)
        assert epoch is not None
        metadata = new.metadata.remote_log_segment_metadata(PARTITION, epoch, offset)
        assert metadata is not None and metadata.start_offset <= offset <= metadata.end_offset
    # When the log start passes them, segments of the other lineage are deleted, too.
    new.log.advance_log_start_offset(40)
    new.run_expiration()
    assert cluster.ranges() == []
    cluster.assert_nothing_dangles()


def test_kafka_15414_a_reassigned_leader_with_a_short_epoch_cache_keeps_referenced_segments() -> None:
    cluster = TierCluster(2)
    old, new = cluster.nodes
    for epoch in range(3):
        old.lead(epoch)
        sealed_segments(old.log, 1, epoch=epoch)
        old.run_copy()
    old.log.retention.apply(NOW_MS + 1)
    # The replica was built from the tier and has only the last epoch.
    new.log.restart_from_remote(
        RemoteState(
            log_start_offset=0,
            local_log_start_offset=30,
            leader_epochs=[entry for entry in old.log.leader_epochs.entries if entry.epoch == 2],
            producer_snapshot=None,
        ),
        NOW_MS,
    )
    new.log.advance_high_watermark(30)
    new.lead(7)
    produce(new.log, 5, epoch=7)
    new.run_copy()
    new.run_expiration()
    assert [each[:2] for each in cluster.ranges()] == [(0, 9), (10, 19), (20, 29)]
    assert new.log.log_start_offset == 0


def test_a_copy_in_progress_is_deleted_only_when_its_records_are_in_another_segment() -> None:
    cluster = TierCluster(2)
    old, new = cluster.nodes
    old.lead(0)
    sealed_segments(old.log, 1)
    replicate(old.log, new.log)
    assert old.copy is not None
    copying = old.copy.run()
    while not cluster.ranges():
        copying.send(None)
    new.lead(1)
    new.log.roll(NOW_MS)
    # The new leader searches for deletable segments while the former leader, not notified, finishes its copy.
    assert new.expiration is not None
    expiring = new.expiration.run()
    has_ended = False
    try:
        expiring.send(None)
    except StopIteration:
        has_ended = True  # there was nothing to delete
    run_to_end(copying)
    if not has_ended:
        run_to_end(expiring)
    assert cluster.ranges() == [(0, 9, FINISHED)]
    new.run_copy()
    new.log.retention.apply(NOW_MS + 1)
    assert new.log.local_log_start_offset == 10
    cluster.assert_nothing_dangles()


def test_remote_log_metrics_are_reported() -> None:
    cluster = TierCluster()
    node = copy_segments(cluster, 3)
    node.run_expiration()
    figures = node.context.figures.partition(PARTITION)
    assert figures.metadata_count == 3
    assert figures.log_size_bytes == sum(len(copy.log) for copy in cluster.tier.copies.values())


@pytest.mark.parametrize("keeps_epoch", [True, False])
def test_a_long_list_of_segments_is_evaluated_in_a_thread_by_the_leader_only(
    monkeypatch: pytest.MonkeyPatch, keeps_epoch: bool
) -> None:
    """The evaluation of 100,000 segments would block the event loop."""
    monkeypatch.setattr(expiration_task, "SEGMENTS_PER_SLICE", 2)
    monkeypatch.setattr(excerpt, "OLDEST_MAX", 2)
    cluster = TierCluster(config=replace(TIERED, retention_ms=1000))
    node = copy_segments(cluster, 3)
    cluster.clock.now_ms += 1000
    called: list[object] = []
    run_deletion = node.context.run_deletion

    def in_thread(function: Callable[..., Any], /, *args: Any) -> Awaitable[Any]:
        called.append(function)
        assert node.role is not None
        node.role.is_current = keeps_epoch
        return run_deletion(function, *args)

    monkeypatch.setattr(node.context, "run_deletion", in_thread)
    node.run_expiration()
    assert called[0] is plan_expiration
    assert node.log.log_start_offset == (30 if keeps_epoch else 0)
    assert len(cluster.tier.copies) == (0 if keeps_epoch else 3)
