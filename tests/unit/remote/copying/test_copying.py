"""A leader copies its sealed segments: objects, metadata records, and failures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.tier.settings import remote_settings
from tests.support.tier.tier_cluster import (
    FINISHED,
    PARTITION,
    TIERED,
    TierCluster,
    end_transaction,
    produce,
    replicate,
    run_to_end,
    sealed_segments,
)
from tidelog.remote.copying.segment_copy import SegmentNotCopyable
from tidelog.remote.ports.metadata_manager import RemoteMetadataError, RemoteMetadataNotReady
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.tasks.fault_points import FaultPoint
from tidelog.storage.producers.producer_snapshot import decode_snapshot


def test_a_sealed_segment_is_copied_with_indexes_and_snapshots() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    log = node.log
    produce(log, 5, producer_id=9, sequence=0, is_transactional=True)
    end_transaction(log, 9, is_abort=True)
    log.roll(NOW_MS)
    produce(log, 5, epoch=3)
    log.roll(NOW_MS)
    produce(log, 5, epoch=4)
    node.run_copy()
    assert cluster.ranges() == [(0, 5, FINISHED), (6, 10, FINISHED)]
    first, second = cluster.segments()
    assert first.segment_leader_epochs == ((0, 0),)
    assert second.segment_leader_epochs == ((3, 6),)
    assert (first.is_txn_index_empty, second.is_txn_index_empty) == (False, True)
    assert first.max_timestamp_ms == NOW_MS
    copies = cluster.tier.copies
    one, two = copies[first.remote_log_segment_id.id], copies[second.remote_log_segment_id.id]
    assert len(one.log) == first.segment_size_bytes
    assert (one.has_txn_index, two.has_txn_index) == (True, False)
    # Epochs from the log start up to the segment's end, as a leader-epoch-checkpoint.
    assert one.leader_epochs == b"0\n1\n0 0\n"
    assert two.leader_epochs == b"0\n2\n0 0\n3 6\n"
    assert [entry.producer_id for entry in decode_snapshot(two.producer_snapshot, "remote")] == [9]
    assert log.highest_offset_in_remote_storage == 10
    counters = cluster.nodes[0].context.figures.topics["events"]
    assert (counters.copy_requests, counters.copy_errors) == (2, 0)
    assert counters.copy_bytes == first.segment_size_bytes + second.segment_size_bytes
    cluster.assert_nothing_dangles()


def test_a_segment_with_an_open_transaction_is_copied_after_its_marker() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 1)
    produce(node.log, 5, producer_id=9, sequence=0, is_transactional=True)
    node.log.roll(NOW_MS)
    sealed_segments(node.log, 1)
    node.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED)]
    lag = node.context.figures.partition(PARTITION)
    assert lag.copy_lag_segments == 2
    end_transaction(node.log, 9, is_abort=False)
    node.run_copy()
    assert [start for start, _, _ in cluster.ranges()] == [0, 10, 15]
    assert (lag.copy_lag_segments, lag.copy_lag_bytes) == (0, 0)


def test_a_new_leader_continues_copying_with_other_segment_boundaries() -> None:
    cluster = TierCluster(2)
    first, second = cluster.nodes
    first.lead(0)
    sealed_segments(first.log, 2)
    first.run_copy()
    replicate(first.log, second.log)  # in one segment
    second.lead(1)
    produce(second.log, 10, epoch=1)
    second.log.roll(NOW_MS)
    second.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED), (0, 29, FINISHED), (10, 19, FINISHED)]
    assert second.log.highest_offset_in_remote_storage == 29
    cluster.assert_nothing_dangles()


def test_nothing_is_copied_before_the_remote_metadata_is_read() -> None:
    cluster = TierCluster()
    node = cluster.nodes[0]
    sealed_segments(node.log, 2)
    node.metadata.inner.held_back.add(PARTITION)
    node.lead(0)
    with pytest.raises(RemoteMetadataNotReady):
        node.run_copy()
    with pytest.raises(RemoteMetadataNotReady):
        node.run_expiration()
    assert not node.log.remote_border.is_remote_log_known
    assert cluster.ranges() == []
    assert "events" not in node.context.figures.topics


def test_copying_is_disabled_and_enabled_per_topic() -> None:
    cluster = TierCluster(config=replace(TIERED, remote_log_copy_disable=True, local_retention_ms=-2))
    node = cluster.leader()
    sealed_segments(node.log, 2)
    node.run_copy()
    assert cluster.ranges() == []
    assert node.log.remote_border.is_remote_log_known
    cluster.configure(TIERED)
    node.run_copy()
    assert len(cluster.ranges()) == 2


def test_a_copy_in_progress_stops_when_copying_is_disabled() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 3)
    disabled = replace(TIERED, remote_log_copy_disable=True, local_retention_ms=-2)
    cluster.tier.before_copy = lambda _: cluster.configure(disabled)
    node.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED)]
    cluster.assert_nothing_dangles()


def test_segments_younger_than_the_copy_lag_wait() -> None:
    cluster = TierCluster(config=replace(TIERED, remote_copy_lag_ms=60_000, local_retention_ms=100_000))
    node = cluster.leader()
    sealed_segments(node.log, 2)
    node.run_copy()
    assert cluster.ranges() == []
    cluster.clock.now_ms += 60_000
    node.run_copy()
    assert len(cluster.ranges()) == 2


def test_kafka_17062_a_failed_copy_is_cleaned_up_and_retried() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 1)
    cluster.tier.faults.half_way = 1
    with pytest.raises(RemoteStorageError):
        node.run_copy()
    assert cluster.ranges() == []
    cluster.assert_nothing_dangles()
    assert node.context.figures.topics["events"].copy_errors == 1
    node.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED)]


def test_kafka_17428_a_failed_clean_up_is_repeated_by_the_next_expiration() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 1)
    cluster.tier.faults.response_lost = 1

    class StoreUnavailable(RemoteStorageError):
        pass

    def delete_fails(metadata: object) -> None:
        raise StoreUnavailable

    works, cluster.tier.delete_log_segment_data = cluster.tier.delete_log_segment_data, delete_fails  # type: ignore[method-assign]
    with pytest.raises(RemoteStorageError):
        node.run_copy()
    assert cluster.ranges() == [(0, 9, "DELETE_SEGMENT_STARTED")]
    assert len(cluster.tier.copies) == 1
    cluster.tier.delete_log_segment_data = works  # type: ignore[method-assign]
    node.run_expiration()
    assert cluster.ranges() == []
    cluster.assert_nothing_dangles()


def test_a_copy_with_unknown_start_is_dangling_until_its_records_are_copied() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 1)
    cluster.metadata_faults.response_lost = 1
    with pytest.raises(RemoteMetadataError):
        node.run_copy()
    assert cluster.ranges() == [(0, 9, "COPY_SEGMENT_STARTED")]
    node.run_expiration()
    assert cluster.ranges() == [(0, 9, "COPY_SEGMENT_STARTED")]
    node.run_copy()
    node.run_expiration()
    assert cluster.ranges() == [(0, 9, FINISHED)]
    cluster.assert_nothing_dangles()


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_finish_record_without_response_is_published_again_without_a_second_copy(is_stored: bool) -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 2)

    def next_writes_fail(_: object) -> None:
        if is_stored:
            cluster.metadata_faults.response_lost = 1
        else:
            cluster.metadata_faults.before = 1
        cluster.tier.before_copy = lambda _: None

    cluster.tier.before_copy = next_writes_fail
    with pytest.raises(RemoteMetadataError):
        node.run_copy()
    # Expiration does not delete it meanwhile.
    node.run_expiration()
    node.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED), (10, 19, FINISHED)]
    assert node.context.figures.topics["events"].copy_requests == 2
    assert node.context.in_progress == set()
    assert node.log.highest_offset_in_remote_storage == 19
    cluster.assert_nothing_dangles()


def test_a_segment_is_not_copied_again_if_the_former_leaders_record_is_read_after_the_plan() -> None:
    cluster = TierCluster(2)
    old, new = cluster.nodes
    old.lead(0)
    sealed_segments(old.log, 2)
    replicate(old.log, new.log)

    def copies_of_the_former_leader_arrive(point: FaultPoint) -> None:
        if point is FaultPoint.BEFORE_COPY_STARTED and not cluster.ranges():
            old.run_copy()

    new.restart(copies_of_the_former_leader_arrive)
    new.lead(1)
    new.log.roll(NOW_MS)
    new.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED), (10, 19, FINISHED)]
    assert new.context.in_progress == set()
    new.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED), (10, 19, FINISHED)]
    cluster.assert_nothing_dangles()


@pytest.mark.parametrize("steps", range(12))
def test_a_deposed_leader_finishes_no_copy_and_deletes_its_objects(steps: int) -> None:
    cluster = TierCluster(2)
    old, new = cluster.nodes
    old.lead(0)
    sealed_segments(old.log, 1)
    replicate(old.log, new.log)
    assert old.copy is not None and old.role is not None
    run = old.copy.run()
    is_over = False
    for _ in range(steps):
        try:
            run.send(None)
        except StopIteration:
            is_over = True
            break
    was_finished = cluster.ranges() == [(0, 9, FINISHED)] or old.copy._unfinished is not None
    old.role.is_current = False
    if not is_over:
        run_to_end(run)
    assert (cluster.ranges() == [(0, 9, FINISHED)]) is was_finished
    old.copy.release()
    assert old.context.in_progress == set()
    cluster.assert_nothing_dangles()
    new.lead(1)
    new.log.roll(NOW_MS)
    new.run_copy()
    new.run_expiration()
    assert cluster.ranges() == [(0, 9, FINISHED)]
    cluster.assert_nothing_dangles()


def test_kafka_16511_a_zombie_leader_whose_copy_was_deleted_deletes_its_objects() -> None:
    cluster = TierCluster(2)
    old, new = cluster.nodes
    old.lead(0)
    sealed_segments(old.log, 1)
    replicate(old.log, new.log)
    assert old.copy is not None
    run = old.copy.run()
    while not cluster.ranges():
        run.send(None)
    run.send(None)  # it begins to write objects: the start of the copy was read back
    # The new leader copies the same records; the former leader's copy is then not needed.
    new.lead(1)
    new.log.roll(NOW_MS)
    new.run_copy()
    new.run_expiration()
    assert cluster.ranges() == [(0, 9, FINISHED)]
    # The former leader is not notified of the election and writes its objects; its last record is refused.
    with pytest.raises(RemoteMetadataError):
        run_to_end(run)
    cluster.assert_nothing_dangles()


def test_oversized_custom_metadata_deletes_the_copy_and_stops_the_partition() -> None:
    cluster = TierCluster()
    cluster.settings = remote_settings(remote_log_metadata_custom_metadata_max_bytes=4)
    node = cluster.nodes[0]
    node.restart()
    node.lead(0)
    sealed_segments(node.log, 2)
    cluster.tier.custom_metadata = b"1234"
    assert node.copy is not None
    produced: list[bytes | None] = []
    node.run_copy()
    produced = [segment.custom_metadata for segment in cluster.segments()]
    assert produced == [b"1234", b"1234"]
    cluster.tier.custom_metadata = b"12345"
    sealed_segments(node.log, 1)
    node.run_copy()
    assert len(cluster.ranges()) == 2
    cluster.assert_nothing_dangles()
    cluster.tier.custom_metadata = None
    node.run_copy()
    assert len(cluster.ranges()) == 2
    # The next epoch tries again, as in Apache Kafka.
    node.lead(1)
    node.run_copy()
    assert len(cluster.ranges()) == 3


@pytest.mark.parametrize("suffix", [".snapshot", ".timeindex"])
def test_a_segment_without_producer_snapshot_or_time_index_stops_copying(
    suffix: str,
) -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 3)
    name = f"{10:020d}{suffix}"
    cluster.fs.unlink(f"{node.log.directory}/{name}")
    with pytest.raises(SegmentNotCopyable, match=name):
        node.run_copy()
    # The snapshot at 10 belongs to the segment that ends there.
    copied = [] if suffix == ".snapshot" else [(0, 9, FINISHED)]
    assert cluster.ranges() == copied
    cluster.assert_nothing_dangles()
    assert node.context.figures.topics["events"].copy_errors == 1


def test_records_without_leader_epoch_are_not_copied() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    produce(node.log, 5, epoch=-1)
    node.log.roll(NOW_MS)
    with pytest.raises(SegmentNotCopyable, match="no leader epoch"):
        node.run_copy()
    assert cluster.ranges() == []


def test_a_segment_is_copied_after_delete_records_moved_the_log_start_into_it() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 2)
    node.log.advance_log_start_offset(15)
    node.run_copy()
    assert cluster.ranges() == [(10, 19, FINISHED)]
    (segment,) = cluster.segments()
    assert segment.segment_leader_epochs == ((0, 15),)


def test_segments_removed_by_delete_records_during_copying_are_not_copied() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 3)

    def delete_records(_: object) -> None:
        node.log.advance_log_start_offset(20)

    cluster.tier.before_copy = delete_records
    node.run_copy()
    assert cluster.ranges() == [(0, 9, FINISHED), (20, 29, FINISHED)]
    node.run_expiration()
    assert cluster.ranges() == [(20, 29, FINISHED)]


def test_a_copy_waits_for_the_quota_and_checks_every_second_for_cancellation() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 3)
    size = node.log.segments.first.size_bytes
    node.context.copy_quota.configure(size // 2, 11, 1)
    began_ms = cluster.clock.now_ms
    node.run_copy()
    assert len(cluster.ranges()) == 3
    assert cluster.clock.now_ms - began_ms >= 2000
    figures = node.context.figures
    assert figures.copy_throttle_time_ms == cluster.clock.now_ms - began_ms
    assert figures.copy_throttle_count >= 2


def test_a_copy_that_waits_for_the_quota_is_cancelled_by_loss_of_leadership() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 2)
    node.context.copy_quota.configure(1, 11, 1)
    assert node.copy is not None and node.role is not None
    run = node.copy.run()
    while len(cluster.ranges()) < 1 or node.context.figures.copy_throttle_count == 0:
        run.send(None)
    node.role.is_current = False
    run_to_end(run)
    assert cluster.ranges() == [(0, 9, FINISHED)]
    cluster.assert_nothing_dangles()


def test_a_follower_reads_the_highest_remote_offset_and_may_delete_local_segments() -> None:
    cluster = TierCluster(2)
    first, second = cluster.nodes
    first.lead(0)
    second.follow(0)
    sealed_segments(first.log, 2)
    replicate(first.log, second.log)
    second.log.roll(NOW_MS)
    second.run_follower()
    assert second.log.remote_border.is_remote_log_known
    assert second.log.highest_offset_in_remote_storage == -1
    first.run_copy()
    second.run_follower()
    assert second.log.highest_offset_in_remote_storage == 19


def test_a_copy_whose_check_fails_is_copied_again_with_another_id() -> None:
    cluster = TierCluster()
    node = cluster.leader()
    sealed_segments(node.log, 1)
    cluster.tier.faults.response_lost = 1
    with pytest.raises(RemoteStorageError):
        node.run_copy()
    (rejected,) = cluster.tier.deleted
    node.run_copy()
    (segment,) = cluster.segments()
    assert cluster.ranges() == [(0, 9, FINISHED)]
    assert segment.remote_log_segment_id.id != rejected
    cluster.assert_nothing_dangles()
