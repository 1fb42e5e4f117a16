"""Deletions of partitions whose topic is tiered again (KIP-950): new segments are kept."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.yields import loop_iterations
from tests.support.tier.metadata_managers import InMemoryRemoteLogMetadataManager
from tests.support.tier.site import QUICK, Site, replica
from tests.support.tier.tier_cluster import PARTITION, TIERED, CopyingTier, sealed_segments
from tests.support.waiting import TIMEOUT_S, eventually, remains
from tidelog.remote.ports.metadata_manager import RemoteMetadataError
from tidelog.remote.ports.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from tidelog.remote.ports.storage_manager import RemoteStorageError

MARKED, STARTED, FINISHED = RemotePartitionDeleteState


def step(state: RemotePartitionDeleteState) -> RemotePartitionDeleteMetadata:
    return RemotePartitionDeleteMetadata(PARTITION, state, NOW_MS, broker_id=77)


@on_both_loops
async def test_a_follower_does_not_rely_on_remote_segments_that_are_being_deleted() -> None:
    leading = Site()
    following = Site(site=leading)
    leading.manager.start()
    leading.manager.on_leadership_change([replica(leading.log(3))], [])
    await eventually(lambda: len(leading.finished_segments()) == 3)
    await leading.close()
    await leading.metadata.close()
    following.metadata.on_partition_leadership_changes((), (PARTITION,))
    await following.metadata.put_remote_partition_delete_metadata(step(MARKED))
    log = following.log(3)
    following.manager.start()
    following.manager.on_leadership_change([], [replica(log)])
    await loop_iterations(60)
    assert not log.remote_border.is_remote_log_known
    assert log.highest_offset_in_remote_storage == -1
    await following.close()


@on_both_loops
@pytest.mark.parametrize("leads", [False, True])
async def test_a_replica_notified_late_of_a_deletion_stops_relying_on_remote_segments(
    leads: bool,
) -> None:
    site = Site()
    other = InMemoryRemoteLogMetadataManager(site.events)
    site.manager.start()
    log = site.log(3)
    site.manager.on_leadership_change([replica(log)], [])
    await eventually(lambda: log.highest_offset_in_remote_storage == 29)
    if not leads:
        site.manager.on_leadership_change([], [replica(log, epoch=1)])
        await eventually(lambda: log.remote_border.is_remote_log_known)
    site.tier.faults.before = 1 << 30
    await other.put_remote_partition_delete_metadata(step(MARKED))
    await eventually(lambda: log.highest_offset_in_remote_storage == -1)
    assert not log.remote_border.is_remote_log_known
    assert log.retention.apply(NOW_MS) == 0
    await site.close()


@on_both_loops
async def test_a_leader_that_replays_a_finished_deletion_deletes_nothing_newer() -> None:
    site = Site()
    site.manager.start()
    site.manager.on_leadership_change([replica(site.log(3))], [])
    await eventually(lambda: len(site.finished_segments()) == 3)
    await site.close()

    restarted = Site(site=site)
    restarted.metadata.held_back.add(PARTITION)
    restarted.metadata.store.apply(
        step(MARKED)
    )  # read already, unlike the end of the deletion and the segments
    log = restarted.log()
    sealed_segments(log, 3)
    restarted.manager.start()
    restarted.manager.on_leadership_change([replica(log)], [])
    await eventually(lambda: PARTITION in restarted.manager.partitions_to_remove)
    restarted.metadata.store.apply(step(FINISHED))
    restarted.metadata.held_back.clear()
    restarted.metadata.on_partition_leadership_changes((PARTITION,), ())
    await eventually(
        lambda: not restarted.manager.partitions_to_remove and log.remote_border.is_remote_log_known
    )
    assert len(restarted.finished_segments()) == 3
    assert len(restarted.tier.copies) == 3
    await restarted.close()


@on_both_loops
async def test_a_deletion_taken_over_spares_segments_written_after_it_ended() -> None:
    entered, door = threading.Event(), threading.Event()
    leading = Site()
    own_tier, leading.tier = leading.tier, CopyingTier(leading.fs)
    helping = Site(site=leading)
    helping.tier.copies, leading.tier = own_tier.copies, own_tier
    leading.manager.start()
    log = leading.log(3)
    leading.manager.on_leadership_change([replica(log)], [])
    await eventually(lambda: len(leading.finished_segments()) == 3)
    helping.metadata.on_partition_leadership_changes((), (PARTITION,))
    delete = helping.tier.delete_log_segment_data

    def block_first_deletion(metadata: RemoteLogSegmentMetadata) -> None:
        if not entered.is_set():
            entered.set()
            assert door.wait(TIMEOUT_S)
        delete(metadata)

    helping.tier.delete_log_segment_data = block_first_deletion  # type: ignore[method-assign]
    await leading.metadata.put_remote_partition_delete_metadata(step(MARKED))
    leading.clock.now_ms += 10
    helping.clock.now_ms += 10 * QUICK.remote_log_manager_task_interval_ms
    helping.manager.start()
    await eventually(entered.is_set)
    # The other node, which leads the partition again, finishes the deletion and copies again.
    log.update_config(replace(TIERED, remote_storage_enable=False))
    log.update_config(TIERED)
    await eventually(
        lambda: not leading.metadata.partition_deletions() and len(leading.finished_segments()) == 3
    )
    door.set()
    await eventually(lambda: not helping.manager.partitions_to_remove)
    assert len(leading.finished_segments()) == 3
    assert len(leading.tier.copies) == 3
    await leading.close()
    await helping.close()


@on_both_loops
async def test_a_pending_deletion_ends_when_the_topic_is_tiered_again_elsewhere() -> None:
    site = Site()
    site.manager.start()
    log = site.log(2)
    site.manager.on_leadership_change([replica(log)], [])
    await eventually(lambda: len(site.finished_segments()) == 2)
    site.metadata.failure = RemoteMetadataError("the metadata topic is unavailable")
    site.manager.stop_partitions([PARTITION], deletes_remote=True)
    assert site.manager.partitions_to_remove == {PARTITION}
    # The deletion has not begun when the partition is tiered again elsewhere; its leader continues copying.
    site.manager.keep_partitions([PARTITION])
    await eventually(lambda: not site.manager.partitions_to_remove)
    site.metadata.failure = None
    await loop_iterations(60)
    assert not site.metadata.partition_deletions()
    assert len(site.tier.copies) == 2
    await site.close()


@on_both_loops
async def test_remote_segments_stay_when_a_topic_is_tiered_again_before_its_deletion() -> None:
    """A hanging copy delays the deletion; until it begins, followers treat the segments as in use."""
    entered, door = threading.Event(), threading.Event()
    leading = Site()
    following = Site(site=leading)
    log = leading.log(3)
    copied = 0

    def third_waits(_: RemoteLogSegmentMetadata) -> None:
        nonlocal copied
        copied += 1
        if copied == 3:
            entered.set()
            assert door.wait(TIMEOUT_S)

    leading.tier.before_copy = third_waits
    leading.manager.start()
    leading.manager.on_leadership_change([replica(log)], [])
    await eventually(entered.is_set)
    assert leading.finished_segments() == [(0, 9), (10, 19)]
    log.update_config(replace(TIERED, remote_storage_enable=False, remote_log_delete_on_disable=True))
    leading.manager.stop_partitions([PARTITION], deletes_remote=True)
    log.update_config(TIERED)
    leading.manager.on_leadership_change([replica(log)], [])
    copy = following.log(3)
    following.manager.start()
    following.manager.on_leadership_change([], [replica(copy)])
    await eventually(lambda: copy.remote_border.is_remote_log_known)
    assert copy.highest_offset_in_remote_storage == 19
    counted_on = {each.remote_log_segment_id.id for each in following.list_segments() if each.state == 1}
    door.set()
    await eventually(
        lambda: (20, 29) in leading.finished_segments() and not leading.manager.partitions_to_remove
    )
    assert counted_on <= set(leading.tier.copies)
    assert not leading.metadata.partition_deletions()
    await following.close()
    await leading.close()


@on_both_loops
async def test_a_node_without_contact_to_the_controller_starts_no_deletion() -> None:
    """The topic may be tiered again meanwhile, and other nodes rely on the segments."""
    site = Site()
    site.manager.start()
    site.manager.on_leadership_change([replica(site.log(2))], [])
    await eventually(lambda: len(site.finished_segments()) == 2)
    site.is_confirmed = False
    site.manager.stop_partitions([PARTITION], deletes_remote=True)
    await remains(lambda: len(site.finished_segments()) == 2 and not site.metadata.partition_deletions(), 0.1)
    site.is_confirmed = True
    await eventually(lambda: not site.tier.copies and not site.manager.partitions_to_remove)
    await site.close()


@on_both_loops
@pytest.mark.parametrize("leads", [False, True])
async def test_a_topic_tiered_and_untiered_at_once_loses_its_remote_segments(leads: bool) -> None:
    site = Site()
    site.manager.start()
    log = site.log(3)
    site.manager.on_leadership_change([replica(log)], [])
    await eventually(lambda: len(site.finished_segments()) == 3)
    # All in one iteration of the event loop, as when a node catches up with the metadata.
    site.manager.stop_partitions([PARTITION], deletes_remote=True)
    here = [replica(log, epoch=1)]
    site.manager.on_leadership_change(*((here, []) if leads else ([], here)))
    site.manager.stop_partitions([PARTITION], deletes_remote=True)
    assert site.manager.partitions_to_remove == {PARTITION}
    await eventually(lambda: not site.tier.copies and not site.manager.partitions_to_remove)
    await site.close()


@on_both_loops
async def test_deletion_of_a_topic_continues_past_segments_that_cannot_be_deleted() -> None:
    site = Site()
    site.manager.start()
    site.manager.on_leadership_change([replica(site.log(8))], [])
    await eventually(lambda: len(site.finished_segments()) == 8)
    locked = {each.remote_log_segment_id.id for each in site.list_segments()[:4]}
    delete = site.tier.delete_log_segment_data

    def refuse(metadata: RemoteLogSegmentMetadata) -> None:
        if metadata.remote_log_segment_id.id in locked:
            raise RemoteStorageError("the object is locked")
        delete(metadata)

    site.tier.delete_log_segment_data = refuse  # type: ignore[method-assign]
    site.manager.stop_partitions([PARTITION], deletes_remote=True)
    await eventually(lambda: site.tier.copies.keys() == locked)
    locked.clear()
    await eventually(lambda: not site.manager.partitions_to_remove)
    assert not site.tier.copies
    await site.close()
