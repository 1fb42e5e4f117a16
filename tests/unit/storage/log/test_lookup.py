"""Offsets by timestamp (KIP-79, KIP-734)."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import append, batch, open_log
from tidelog.protocol.compression import Compression
from tidelog.protocol.steps import run_steps
from tidelog.storage.log.lookup import RecordPlace
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

SMALL = log_config(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)


@pytest.fixture(params=[Compression.NONE, Compression.ZSTD])
def log(request: pytest.FixtureRequest) -> PartitionLog:
    """Return a log with offsets 0-29 and timestamps 0, 10, 20, ... in batches of three."""
    log = open_log(CrashFileSystem(), SMALL)
    for first in range(0, 30, 3):
        times = [10 * (first + index) for index in range(3)]
        append(log, "a", "b", "c", timestamps=times, compression=request.param, leader_epoch=first // 10)
    return log


def test_the_first_record_at_or_after_a_timestamp_is_found(log: PartitionLog) -> None:
    for timestamp in range(291):
        offset = -(-timestamp // 10)
        assert run_steps(log.timestamps.first_record_from(timestamp)) == RecordPlace(
            10 * offset, offset, offset // 3 * 3 // 10
        )


def test_a_timestamp_before_all_records_finds_the_first(log: PartitionLog) -> None:
    assert run_steps(log.timestamps.first_record_from(-5)) == RecordPlace(0, 0, 0)


def test_a_timestamp_after_all_records_finds_nothing(log: PartitionLog) -> None:
    assert run_steps(log.timestamps.first_record_from(291)) is None


def test_records_at_or_beyond_the_bound_are_not_found(log: PartitionLog) -> None:
    assert run_steps(log.timestamps.first_record_from(100, upper_bound=10)) is None
    assert run_steps(log.timestamps.first_record_from(100, upper_bound=11)) is not None


def test_records_below_the_log_start_are_not_found(log: PartitionLog) -> None:
    log.advance_log_start_offset(17)
    assert run_steps(log.timestamps.first_record_from(0)) == RecordPlace(170, 17, 1)


def test_the_largest_timestamp_is_found_at_any_position() -> None:
    log = open_log(CrashFileSystem(), SMALL)
    append(log, "a", "b", timestamps=[5, 7], leader_epoch=3)
    assert run_steps(log.timestamps.newest_record()) == RecordPlace(7, 1, 3)
    append(log, "c", "d", "e", timestamps=[90, 99, 99], leader_epoch=4)
    for _ in range(10):
        append(log, "x" * 30, timestamps=50, leader_epoch=5)
    assert len(log.segments) > 1
    assert run_steps(log.timestamps.newest_record()) == RecordPlace(99, 3, 4)


def test_a_log_without_timestamps_has_no_maximum_timestamp() -> None:
    log = open_log(CrashFileSystem())
    assert run_steps(log.timestamps.newest_record()) is None
    log.append_as_leader(batch(["a"], timestamps=-1), 0, NOW_MS)
    assert run_steps(log.timestamps.first_record_from(0)) is None


def test_decreasing_timestamps_do_not_hide_records() -> None:
    log = open_log(CrashFileSystem(), SMALL)
    times = [100, 50, 200, 60, 300, 70, 250, 400]
    for timestamp in times:
        append(log, "x" * 60, timestamps=timestamp)
    for timestamp in range(40, 410, 5):
        expected = next((i for i, time in enumerate(times) if time >= timestamp), None)
        place = run_steps(log.timestamps.first_record_from(timestamp))
        assert (place and place.offset) == expected


@pytest.mark.parametrize("compression", [Compression.NONE, Compression.ZSTD])
def test_unreadable_records_give_one_result_and_hide_no_others(compression: Compression) -> None:
    log = open_log(CrashFileSystem(), SMALL)
    append(log, "a", timestamps=10)
    nonsense = batch(["b", "c"], timestamps=[20, 30], compression=compression)
    nonsense[-6:] = b"\xff" * 6
    nonsense[17:21] = crc32c(nonsense[21:]).to_bytes(4, "big")
    log.append_as_leader(nonsense, 0, NOW_MS)
    append(log, "d", timestamps=25)
    assert run_steps(log.timestamps.first_record_from(10)) == RecordPlace(10, 0, 0)
    place = run_steps(log.timestamps.first_record_from(21))
    assert place is not None
    assert (place.timestamp, place.offset) in ((30, 1), (30, 2))
    assert run_steps(log.timestamps.newest_record()) in (RecordPlace(30, 1, 0), RecordPlace(30, 2, 0))
    assert run_steps(log.timestamps.first_record_from(31)) is None


def test_log_append_time_is_used_if_the_topic_config_requires_it() -> None:
    log = open_log(CrashFileSystem(), log_config(message_timestamp_type="LogAppendTime"))
    log.append_as_leader(batch(["a", "b"], timestamps=[1, 2]), 0, NOW_MS)
    assert run_steps(log.timestamps.first_record_from(3)) == RecordPlace(NOW_MS, 0, 0)
    assert run_steps(log.timestamps.newest_record()) == RecordPlace(NOW_MS, 0, 0)
