"""The simulated disk: data that survives a power failure."""

from __future__ import annotations

from tests.sim.quorum.memory_log import MemoryLog
from tidelog.cluster.quorum.log import EpochEnd, SnapshotId
from tidelog.protocol.batch_builder import BatchBuilder


def batch(offset: int, epoch: int, count: int = 1) -> bytes:
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    for number in range(count):
        builder.append(0, None, b"%d" % number)
    return bytes(builder.build())


def log_of(*batches: tuple[int, int]) -> MemoryLog:
    log = MemoryLog()
    for offset, epoch in batches:
        log.append(batch(offset, epoch), epoch)
    return log


def test_only_synced_records_survive_the_worst_power_failure() -> None:
    log = log_of((0, 1), (1, 1))
    log.sync(2)
    log.append(batch(2, 1) + batch(3, 1), 1)
    assert (log.durable_end_offset, log.unsynced_changes) == (2, 2)
    log.lose_power(0)
    assert (log.end_offset, log.last_epoch) == (2, 1)


def test_a_prefix_of_the_unsynced_changes_may_survive() -> None:
    log = log_of((0, 1), (1, 1), (2, 1))
    log.lose_power(2)
    assert log.end_offset == 2


def test_a_flush_up_to_an_offset_syncs_records_below_it() -> None:
    log = log_of((0, 1), (1, 1), (2, 1))
    log.sync(2)
    assert log.durable_end_offset == 2
    log.lose_power(0)
    assert log.end_offset == 2


def test_an_unsynced_truncation_is_undone_by_a_power_failure() -> None:
    log = log_of((0, 1), (1, 1), (2, 1))
    log.sync(3)
    log.truncate_to(1)
    log.append(batch(1, 2), 2)
    assert log.durable_end_offset == 1
    log.lose_power(0)
    assert [(each.base_offset, each.epoch) for each in log.batches] == [(0, 1), (1, 1), (2, 1)]


def test_a_killed_process_keeps_its_page_cache() -> None:
    log = log_of((0, 1), (1, 1))
    log.reopen()
    assert (log.end_offset, log.high_watermark, log.unsynced_changes) == (2, 0, 2)


def test_a_log_that_lost_records_covered_by_its_snapshot_starts_at_the_snapshot() -> None:
    log = log_of((0, 1), (1, 1), (2, 1))
    log.advance_high_watermark(3)
    log.add_snapshot(SnapshotId(2, 1), b"state")
    log.lose_power(0)
    log.reopen()
    assert (log.start_offset, log.start_epoch, log.high_watermark, log.end_offset) == (2, 1, 2, 2)


def test_a_log_may_start_at_any_of_its_snapshots() -> None:
    log = log_of((0, 1), (1, 1), (2, 2), (3, 2))
    log.sync(4)
    log.advance_high_watermark(4)
    log.add_snapshot(SnapshotId(2, 1), b"state")
    log.add_snapshot(SnapshotId(3, 2), b"state")
    log.delete_before(SnapshotId(2, 1))
    assert (log.start_offset, log.start_epoch, log.end_offset) == (2, 1, 4)
    assert log.end_offset_for_epoch(0) == EpochEnd(1, 2)
    assert log.end_offset_for_epoch(1) == EpochEnd(1, 2)
    assert log.end_offset_for_epoch(7) == EpochEnd(2, 4)
    log.lose_power(0)
    log.reopen()
    assert (log.start_offset, log.high_watermark, log.end_offset) == (2, 3, 4)


def test_a_fetched_snapshot_replaces_the_log() -> None:
    log = log_of((0, 1), (1, 1))
    log.append_snapshot_chunk(SnapshotId(9, 3), 0, b"sta")
    log.append_snapshot_chunk(SnapshotId(9, 3), 3, b"te")
    log.finish_snapshot(SnapshotId(9, 3))
    assert (log.start_offset, log.high_watermark, log.end_offset, log.last_epoch) == (9, 9, 9, 3)
    assert log.read_snapshot(SnapshotId(9, 3), 1, 2) == (b"ta", 5)
