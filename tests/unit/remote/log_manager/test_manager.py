"""The RemoteLogManager on a running loop: roles, schedules, deleted topics, settings, stopping."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.tier.site import QUICK, Site, replica
from tests.support.tier.tier_cluster import (
    PARTITION,
    TIERED,
    produce,
    sealed_segments,
)
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)
from tidelog.remote.tasks.replica import TieredReplica

SLOW = replace(QUICK, remote_log_manager_task_interval_ms=3_600_000)


@on_both_loops
async def test_a_leader_copies_repeatedly_and_a_follower_tracks_the_remote_end() -> None:
    site = Site()
    other = Site(site=site)
    log, follower_log = site.log(2), other.log(2)
    site.manager.on_leadership_change([replica(log)], [])
    other.manager.on_leadership_change([], [replica(follower_log)])
    # Nothing happens before the node is ready (KIP-1197).
    await asyncio.sleep(0)
    assert site.finished_segments() == []
    site.manager.start()
    other.manager.start()
    await eventually(lambda: len(site.finished_segments()) == 2)
    await eventually(lambda: follower_log.highest_offset_in_remote_storage == 19)
    sealed_segments(log, 1)
    await eventually(lambda: len(site.finished_segments()) == 3)
    await site.close()
    await other.close()


@on_both_loops
async def test_a_failure_is_retried_after_a_backoff_shorter_than_the_interval() -> None:
    site = Site(SLOW)
    site.metadata.failure = RemoteMetadataError("away")
    site.manager.start()
    site.manager.on_leadership_change([replica(site.log(1))], [])
    await eventually(lambda: site.manager.figures.topic("events").copy_errors >= 2)
    site.metadata.failure = None
    await eventually(lambda: site.finished_segments() == [(0, 9)])
    await site.close()


@on_both_loops
async def test_tasks_of_a_partition_never_overlap_across_epochs() -> None:
    site = Site()
    inside, most = 0, 0
    lock, door = threading.Lock(), threading.Event()

    def count_call(_: RemoteLogSegmentMetadata) -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        assert door.wait(TIMEOUT_S)
        with lock:
            inside -= 1

    site.tier.before_copy = count_call
    site.manager.start()
    log = site.log(2)
    for epoch in range(5):
        site.manager.on_leadership_change([replica(log, epoch)], [])
        site.manager.on_leadership_change([replica(log, epoch)], [])  # notified twice
        await eventually(lambda: inside == 1)
    door.set()
    await eventually(lambda: len(site.finished_segments()) == 2)
    assert most == 1
    # Work of earlier epochs was discarded by their own tasks.
    await eventually(lambda: len(site.tier.copies) == 2)
    assert len(site.list_segments()) == 2
    await site.close()


@on_both_loops
async def test_a_topic_deleted_during_a_copy_leaves_no_objects() -> None:
    site = Site()
    entered, door = threading.Event(), threading.Event()
    log = site.log(3)
    site.manager.start()
    copied = 0

    def third_waits(_: RemoteLogSegmentMetadata) -> None:
        nonlocal copied
        copied += 1
        if copied == 3:
            entered.set()
            assert door.wait(TIMEOUT_S)

    site.tier.before_copy = third_waits
    site.manager.on_leadership_change([replica(log)], [])
    await eventually(entered.is_set)
    site.manager.stop_partitions([PARTITION], deletes_remote=True)
    assert site.manager.partitions_to_remove == {PARTITION}
    assert not site.manager.is_assigned(PARTITION)
    door.set()
    await eventually(lambda: not site.manager.partitions_to_remove)
    assert site.tier.copies == {}
    states = [event.state for event in site.events.events if isinstance(event, RemotePartitionDeleteMetadata)]
    assert states == list(RemotePartitionDeleteState)
    assert not site.metadata.is_ready(PARTITION)
    assert PARTITION not in site.manager.figures.partitions
    await site.close()


@on_both_loops
async def test_metrics_of_a_deleted_topic_are_removed() -> None:
    site = Site()
    manager = site.manager
    manager.start()
    manager.on_leadership_change([TieredReplica(PARTITION, site.log(3), 0)], [])
    await eventually(lambda: manager.figures.topics and len(site.finished_segments()) == 3)
    manager.stop_partitions([PARTITION], deletes_remote=True)
    await eventually(lambda: not manager.figures.topics)
    assert not site.tier.copies
    await site.close()


@on_both_loops
async def test_a_recreated_topic_keeps_its_own_segments() -> None:
    site = Site()
    again = TopicIdPartition(UUID(int=99), PARTITION.topic, PARTITION.partition)
    site.manager.start()
    site.manager.on_leadership_change([replica(site.log(3))], [])
    await eventually(lambda: len(site.finished_segments()) == 3)
    site.tier.faults.before = 2  # the deletion needs some attempts
    site.manager.stop_partitions([PARTITION], deletes_remote=True)
    new_log = site.log(2, directory="/data/again/events-0")
    site.manager.on_leadership_change([replica(new_log, 0, again)], [])
    await eventually(
        lambda: not site.manager.partitions_to_remove and len(site.finished_segments(again)) == 2
    )
    assert len(site.tier.copies) == 2
    await site.close()


@on_both_loops
async def test_a_reassigned_partition_keeps_its_remote_segments() -> None:
    site = Site()
    site.manager.start()
    site.manager.on_leadership_change([replica(site.log(2))], [])
    await eventually(lambda: len(site.finished_segments()) == 2)
    site.manager.stop_partitions([PARTITION], deletes_remote=False)
    assert not site.metadata.is_ready(PARTITION)
    assert len(site.tier.copies) == 2
    await site.close()
    assert len(site.tier.copies) == 2


@on_both_loops
async def test_an_interrupted_deletion_is_resumed_by_the_node_that_began_it() -> None:
    site = Site()
    site.manager.start()
    site.manager.on_leadership_change([replica(site.log(3))], [])
    await eventually(lambda: len(site.finished_segments()) == 3)
    site.tier.faults.before = 1 << 30
    site.manager.stop_partitions([PARTITION], deletes_remote=True)
    await eventually(lambda: any(each.state == 2 for each in site.list_segments()))
    await site.close()
    site.tier.faults.clear()
    assert len(site.tier.copies) == 3

    restarted = Site(site=site)
    restarted.metadata.on_partition_leadership_changes((), ())
    for event in site.events.events:  # a new manager has read the topic
        restarted.metadata.on_record(event)
    restarted.clock.now_ms += 1_000_000
    restarted.manager.start()
    await eventually(lambda: not restarted.tier.copies and not restarted.manager.partitions_to_remove)
    assert restarted.metadata.partition_deletions() == []
    await restarted.close()


@on_both_loops
async def test_a_deletion_of_another_node_is_not_taken_over_at_once() -> None:
    site = Site()
    mark = RemotePartitionDeleteMetadata(
        PARTITION, RemotePartitionDeleteState.DELETE_PARTITION_MARKED, NOW_MS, broker_id=77
    )
    await site.metadata.put_remote_partition_delete_metadata(mark)
    site.manager.start()
    await asyncio.sleep(0)
    await eventually(lambda: site.metadata.partition_deletions() == [mark])
    assert site.manager.partitions_to_remove == frozenset()
    site.clock.now_ms += 2 * QUICK.remote_log_manager_task_interval_ms
    await eventually(lambda: site.metadata.partition_deletions() == [])
    await site.close()


@on_both_loops
async def test_a_follower_deletes_a_topic_when_the_leader_did_not() -> None:
    leading = Site()
    following = Site(site=leading)
    leading.manager.start()
    following.manager.start()
    leading.manager.on_leadership_change([replica(leading.log(2))], [])
    following.manager.on_leadership_change([], [replica(following.log(2))])
    await eventually(lambda: len(leading.finished_segments()) == 2)
    await leading.close()  # the leader is stopped when the topic is deleted
    following.manager.stop_partitions([PARTITION], deletes_remote=True)
    await eventually(lambda: not following.manager.partitions_to_remove)
    assert following.tier.copies == {}
    await following.close()


@on_both_loops
async def test_disabling_and_enabling_remote_storage_starts_from_an_empty_tier() -> None:
    site = Site()
    site.manager.start()
    log = site.log(3)
    site.manager.on_leadership_change([replica(log)], [])
    await eventually(lambda: len(site.finished_segments()) == 3)
    site.tier.faults.before = 1 << 30
    log.retention.apply(NOW_MS + 1)
    log.update_config(replace(TIERED, remote_storage_enable=False, remote_log_delete_on_disable=True))
    assert log.log_start_offset == 30
    site.manager.stop_partitions([PARTITION], deletes_remote=True)
    await eventually(site.metadata.partition_deletions)
    # Enabled again before the deletion has ended: copies wait for its end.
    log.update_config(TIERED)
    sealed_segments(log, 1)
    site.manager.on_leadership_change([replica(log)], [])
    site.tier.faults.clear()
    await eventually(lambda: site.finished_segments() == [(30, 39)] and not site.manager.partitions_to_remove)
    assert len(site.tier.copies) == 1
    await site.close()


@on_both_loops
async def test_an_untiered_replica_is_skipped() -> None:
    site = Site()
    site.manager.start()
    plain = replica(site.log(2, log_config()))
    site.manager.on_leadership_change([plain], [])
    assert not site.manager.is_assigned(PARTITION)
    assert not site.metadata.is_ready(PARTITION)
    await site.close()


@on_both_loops
async def test_thread_pools_and_quotas_follow_dynamic_configs() -> None:
    site = Site()
    manager = site.manager
    assert (manager.copier_pool.threads, manager.expiration_pool.threads) == (10, 10)
    assert manager.reader_pool.threads == 10
    manager.update_settings(
        replace(
            QUICK,
            remote_log_manager_copier_thread_pool_size=3,
            remote_log_manager_expiration_thread_pool_size=4,
            remote_log_reader_threads=5,
            remote_log_manager_copy_max_bytes_per_second=1000,
            remote_log_manager_fetch_max_bytes_per_second=10,
        )
    )
    assert (manager.copier_pool.threads, manager.expiration_pool.threads) == (3, 4)
    assert manager.reader_pool.threads == 5
    assert manager.copy_quota.bytes_per_second == 1000
    manager.fetch_quota.record(1000, 0)
    assert manager.fetch_quota.is_exceeded(0)
    await site.close()


@on_both_loops
async def test_at_most_one_copy_per_copier_thread_is_started() -> None:
    site = Site(replace(QUICK, remote_log_manager_copier_thread_pool_size=2))
    door = threading.Event()
    site.tier.before_copy = lambda _: assert_open(door)
    partitions = [TopicIdPartition(UUID(int=7), "events", number) for number in range(6)]
    site.manager.start()
    logs = [site.log(1, directory=f"/data/many/events-{number}") for number in range(6)]
    leaders = [replica(log, 0, partition) for log, partition in zip(logs, partitions, strict=True)]
    site.manager.on_leadership_change(leaders, [])
    await eventually(lambda: site.manager.copier_pool.idle_share == 0.0)
    assert sum(len(site.list_segments(partition)) for partition in partitions) == 2
    door.set()
    await eventually(lambda: all(len(site.finished_segments(partition)) == 1 for partition in partitions))
    await site.close()


def assert_open(door: threading.Event) -> None:
    assert door.wait(TIMEOUT_S)


@on_both_loops
async def test_close_waits_for_running_work_up_to_the_timeout() -> None:
    site = Site()
    entered, door = threading.Event(), threading.Event()

    def block_copy(_: RemoteLogSegmentMetadata) -> None:
        entered.set()
        assert door.wait(TIMEOUT_S)

    site.tier.before_copy = block_copy
    site.manager.start()
    site.manager.on_leadership_change([replica(site.log(1))], [])
    await eventually(entered.is_set)
    await site.manager.close(timeout_s=0.01)
    assert site.finished_segments() == []
    door.set()
    site.manager.on_leadership_change([replica(site.log(1))], [])  # too late: it has no effect
    assert not site.manager.is_assigned(PARTITION)
    await site.manager.close()
    await site.metadata.close()


@on_both_loops
async def test_close_lets_a_copy_end_and_deletes_its_objects() -> None:
    site = Site()
    entered, door = threading.Event(), threading.Event()

    def block_copy(_: RemoteLogSegmentMetadata) -> None:
        entered.set()
        assert door.wait(TIMEOUT_S)

    site.tier.before_copy = block_copy
    site.manager.start()
    site.manager.on_leadership_change([replica(site.log(1))], [])
    await eventually(entered.is_set)
    closing = asyncio.create_task(site.manager.close())
    await asyncio.sleep(0)
    door.set()
    await closing
    assert site.tier.copies == {}
    assert site.list_segments() == []
    await site.metadata.close()


@on_both_loops
async def test_a_manager_can_be_closed_before_its_start() -> None:
    site = Site()
    site.manager.on_leadership_change([replica(site.log(1))], [])
    await site.close()
    assert produce(site.log(), 1) == 10
    with pytest.raises(AssertionError):
        site.manager.start()
