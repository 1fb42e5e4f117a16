"""The cleanable range of a log, and when compaction is required."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.compaction import COMPACTED, append_keyed, compact, roll
from tests.support.logs.partition_logs import open_log
from tidelog.storage.compaction.cleanable import find_cleanable, is_cleaned, is_due
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


def log_with(*timestamps: int, **config: Any) -> PartitionLog:
    """Return a log with a sealed segment of one record per timestamp, and an empty active segment."""
    log = open_log(CrashFileSystem(), replace(COMPACTED, **config))
    for number, timestamp in enumerate(timestamps):
        append_keyed(log, (f"{number}", "x"), timestamps=timestamp)
        roll(log)
    return log


def test_the_active_segment_is_not_compacted() -> None:
    log = log_with(NOW_MS)
    append_keyed(log, ("a", "1"))
    cleanable = find_cleanable(log, NOW_MS)
    assert (cleanable.first_dirty_offset, cleanable.end_offset, cleanable.clean_bytes) == (0, 1, 0)
    assert cleanable.dirty_bytes == log.segments.first.size_bytes


def test_records_beyond_the_high_watermark_or_recovery_point_are_not_compacted() -> None:
    log = log_with(NOW_MS, NOW_MS)
    log.append_as_leader(bytearray(log.segments.first.file.pread(1000, 0)), 0, NOW_MS)
    log.roll(NOW_MS)
    assert find_cleanable(log, NOW_MS).end_offset == 2
    log.advance_high_watermark(3)
    assert find_cleanable(log, NOW_MS).end_offset == 2, "it is not durable yet"
    log.flush(NOW_MS)
    assert find_cleanable(log, NOW_MS).end_offset == 3


def test_records_younger_than_min_compaction_lag_are_not_compacted() -> None:
    log = log_with(NOW_MS, NOW_MS + 50, NOW_MS + 10, min_compaction_lag_ms=60)
    assert find_cleanable(log, NOW_MS + 59).end_offset == 0
    assert find_cleanable(log, NOW_MS + 60).end_offset == 1
    assert find_cleanable(log, NOW_MS + 109).end_offset == 1, (
        "the second record also prevents compaction of the third"
    )
    assert find_cleanable(log, NOW_MS + 110).end_offset == 3


def test_a_log_is_cleanable_by_its_dirty_ratio() -> None:
    log = log_with(NOW_MS, NOW_MS)
    assert find_cleanable(log, NOW_MS).ratio == 1.0
    compact(log)
    clean = find_cleanable(log, NOW_MS)
    assert (clean.ratio, is_due(log, clean)) == (0.0, False)
    append_keyed(log, ("new", "x" * log.size_bytes * 2))
    roll(log)
    dirty = find_cleanable(log, NOW_MS)
    assert 0.5 < dirty.ratio < 0.8 and is_due(log, dirty)
    log.update_config(replace(COMPACTED, min_cleanable_dirty_ratio=0.9))
    assert not is_due(log, dirty)


def test_a_log_is_cleanable_when_a_dirty_record_exceeds_max_compaction_lag() -> None:
    log = log_with(NOW_MS, NOW_MS + 50, min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=100)
    assert not is_due(log, find_cleanable(log, NOW_MS + 100))
    late = find_cleanable(log, NOW_MS + 107)
    assert late.delay_ms == 7 and is_due(log, late)
    compact(log)
    assert find_cleanable(log, NOW_MS + 10**6).delay_ms == 0


def test_max_compaction_lag_rolls_segments() -> None:
    log = log_with(NOW_MS, max_compaction_lag_ms=1000)
    append_keyed(log, ("a", "1"), timestamps=NOW_MS)
    append_keyed(log, ("a", "2"), timestamps=NOW_MS + 1001)
    assert log.segments.base_offsets == [0, 1, 2]
    log.update_config(replace(COMPACTED, max_compaction_lag_ms=1000, cleanup_policy=("delete",)))
    append_keyed(log, ("a", "3"), timestamps=NOW_MS + 3000)
    assert len(log.segments) == 3


def test_a_checkpointed_offset_outside_the_log_is_ignored() -> None:
    log = log_with(NOW_MS, NOW_MS)
    for checkpointed_offset, first_dirty_offset in ((None, 0), (1, 1), (2, 2), (3, 0)):
        log.set_first_dirty_offset(checkpointed_offset)
        assert find_cleanable(log, NOW_MS).first_dirty_offset == first_dirty_offset
    log.advance_log_start_offset(1)
    log.set_first_dirty_offset(0)
    assert find_cleanable(log, NOW_MS).first_dirty_offset == 1


def test_uncompacted_and_tiered_logs_are_unchanged() -> None:
    log = log_with(NOW_MS)
    assert is_cleaned(log)
    log.update_config(replace(COMPACTED, remote_storage_enable=True))
    assert not is_cleaned(log)
    log.update_config(replace(COMPACTED, cleanup_policy=("delete",)))
    assert not is_cleaned(log)
