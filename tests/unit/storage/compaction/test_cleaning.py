"""A complete compaction round of one log, and what readers get after it."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.compaction import (
    COMPACTED,
    append_keyed,
    compact,
    keyed_batch,
    latest_of,
    read_log,
    roll,
)
from tests.support.logs.log_checks import check_indexes, check_log
from tests.support.logs.partition_logs import DIRECTORY, append_marker, open_log
from tidelog.protocol.batch import BATCH_OVERHEAD, LOG_OVERHEAD, read_header, write_header
from tidelog.protocol.compression import Compression, compress
from tidelog.protocol.errors import DecodeError
from tidelog.storage.compaction.cleanable import find_cleanable
from tidelog.storage.compaction.cleaning import WINDOW_BYTES
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.record_bounds import RECORDS_MAX
from tidelog.storage.segment.batch_scan import CorruptLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


@pytest.fixture
def log(disk: CrashFileSystem) -> PartitionLog:
    return open_log(disk, COMPACTED)


def pairs(log: PartitionLog, *, committed: bool = False) -> list[tuple[str, str | None]]:
    return [
        ((record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in read_log(log, committed=committed)
    ]


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in read_log(log)]


@pytest.mark.parametrize("codec", list(Compression))
def test_only_the_latest_record_of_each_key_is_kept_at_its_offset(
    log: PartitionLog, codec: Compression
) -> None:
    append_keyed(log, ("a", "1"), ("b", "1"), ("a", "2"), compression=codec)
    append_keyed(log, ("c", "1"), ("b", "2"), compression=codec)
    roll(log)
    append_keyed(log, ("a", "not compacted yet"))
    compact(log)
    assert list(zip(offsets(log), pairs(log), strict=True)) == [
        (2, ("a", "2")),
        (3, ("c", "1")),
        (4, ("b", "2")),
        (5, ("a", "not compacted yet")),
    ]
    assert log.log_start_offset == 0
    check_log(log)


def test_unchanged_batches_keep_their_bytes(log: PartitionLog) -> None:
    append_keyed(log, ("a", "1"), ("b", "1"))
    roll(log)
    before = log.segments.first.file.pread(1000, 0)
    compact(log)
    assert log.segments.first.file.pread(1000, 0) == before


def test_segments_are_merged_up_to_the_segment_size(log: PartitionLog) -> None:
    for number in range(10):
        append_keyed(log, (f"key {number}", "x" * 100))
        roll(log)
    log.update_config(replace(COMPACTED, segment_bytes=log.size_bytes // 3))
    compact(log)
    assert 4 <= len(log.segments) <= 5
    assert len(read_log(log)) == 10
    check_log(log)


def test_replaced_segments_are_deleted_after_a_delay(disk: CrashFileSystem, log: PartitionLog) -> None:
    append_keyed(log, ("a", "1"))
    roll(log)
    append_keyed(log, ("a", "2"))
    roll(log)
    compact(log)
    assert [name for name in disk.listdir(DIRECTORY) if name.endswith(".deleted")]
    log.retention.delete_expired_files(NOW_MS + COMPACTED.file_delete_delay_ms)
    left = disk.listdir(DIRECTORY)
    assert not [name for name in left if name.endswith((".deleted", ".cleaned", ".swap"))]
    assert "00000000000000000001.snapshot" not in left


def test_a_reader_of_a_replaced_segment_gets_its_bytes(log: PartitionLog) -> None:
    append_keyed(log, ("a", "1"), ("a", "2"))
    roll(log)
    records = log.read(0, 1000).records
    assert records is not None
    before = records.read()
    compact(log)
    log.retention.delete_expired_files(NOW_MS + COMPACTED.file_delete_delay_ms)
    assert records.read() == before


def test_tombstones_are_kept_until_their_delete_horizon(log: PartitionLog) -> None:
    append_keyed(log, ("a", "1"), ("b", "1"), timestamps=[NOW_MS - 9, NOW_MS - 7])
    append_keyed(log, ("a", None), ("b", "2"), timestamps=[NOW_MS - 5, NOW_MS - 3])
    roll(log)
    compact(log, NOW_MS)
    assert pairs(log) == [("a", None), ("b", "2")]
    assert [record.timestamp for record in read_log(log)] == [NOW_MS - 5, NOW_MS - 3]
    first = log.segments.first
    ((_, header),) = first.batches()
    assert header.base_timestamp == NOW_MS + COMPACTED.delete_retention_ms
    append_keyed(log, ("c", "1"))
    roll(log)
    compact(log, NOW_MS + COMPACTED.delete_retention_ms - 1)
    assert pairs(log) == [("a", None), ("b", "2"), ("c", "1")]
    append_keyed(log, ("d", "1"))
    roll(log)
    compact(log, NOW_MS + COMPACTED.delete_retention_ms)
    assert pairs(log) == [("b", "2"), ("c", "1"), ("d", "1")]
    assert read_log(log)[0].timestamp == NOW_MS - 3
    check_log(log)


def test_records_without_a_key_are_removed(log: PartitionLog) -> None:
    log.update_config(replace(COMPACTED, cleanup_policy=("delete",)))
    append_keyed(log, (None, "x"), ("a", "1"), (None, "y"))
    append_keyed(log, (None, "z"))
    append_keyed(log, ("b", "1"))
    log.update_config(COMPACTED)
    roll(log)
    compact(log)
    assert pairs(log) == [("a", "1"), ("b", "1")]


def test_long_keys_are_distinguished(log: PartitionLog) -> None:
    long = "k" * 5000
    append_keyed(log, (long + "1", "1"), (long + "2", "1"), (long + "1", "2"))
    roll(log)
    compact(log)
    assert pairs(log) == [(long + "2", "1"), (long + "1", "2")]


def test_an_offset_map_that_is_too_small_takes_several_rounds(log: PartitionLog) -> None:
    for number in range(6):
        append_keyed(log, (f"{number % 4}", "old"), (f"{number}", "x"))
        roll(log)
    expected = latest_of(read_log(log))
    rounds = 0
    while log.first_dirty_offset != log.segments.active.base_offset:
        compact(log, key_count_max=3)
        assert latest_of(read_log(log)) == expected
        rounds += 1
    assert rounds > 1
    assert {record.key: (record.offset, record.value) for record in read_log(log)} == expected
    assert len(read_log(log)) == len(expected)


def test_a_batch_with_more_keys_than_the_map_holds_is_compacted(
    log: PartitionLog,
) -> None:
    append_keyed(log, *((f"{number % 5}", f"{number}") for number in range(10)))
    append_keyed(log, ("x", "1"))
    roll(log)
    while log.first_dirty_offset != log.log_end_offset:
        compact(log, key_count_max=2)
    assert [value for _, value in pairs(log)] == ["5", "6", "7", "8", "9", "1"]


def test_the_last_batch_of_a_producer_is_kept_empty_for_its_sequence(
    disk: CrashFileSystem, log: PartitionLog
) -> None:
    append_keyed(log, ("a", "1"), ("a", "2"), producer_id=7, producer_epoch=0, base_sequence=0)
    append_keyed(log, ("a", "3"))
    roll(log)
    compact(log)
    assert pairs(log) == [("a", "3")]
    log.close(clean=False)
    for name in disk.listdir(DIRECTORY):
        if name.endswith(".snapshot"):
            disk.unlink(f"{DIRECTORY}/{name}")
    reopened = open_log(disk, COMPACTED, clean=True)
    assert reopened.producers.producers[7].last_sequence == 1
    append_keyed(reopened, ("a", "4"), producer_id=7, producer_epoch=0, base_sequence=2)
    roll(reopened)
    compact(reopened)
    # That batch is no longer the last one.
    assert [header.base_offset for _, header in reopened.segments.first.batches()] == [3]


def test_the_last_batch_of_the_compacted_range_is_kept_for_its_offset(log: PartitionLog) -> None:
    append_keyed(log, ("a", "1"))
    append_keyed(log, ("b", None))
    roll(log)
    compact(log)
    log.set_first_dirty_offset(None)
    compact(log, NOW_MS + COMPACTED.delete_retention_ms)
    assert pairs(log) == [("a", "1")]
    assert [header.next_offset for _, header in log.segments.first.batches()] == [1, 2]
    records = log.read(1, 1000).records
    assert records is not None and read_header(records.read()).record_count == 0


def test_records_of_aborted_transactions_are_removed_before_their_markers(log: PartitionLog) -> None:
    append_keyed(log, ("a", "old"))
    append_keyed(
        log, ("a", "aborted"), producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    append_marker(log, 5, is_abort=True)
    append_keyed(log, ("b", "1"), producer_id=6, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_marker(log, 6, is_abort=False)
    roll(log)
    assert pairs(log) == [("a", "old"), ("a", "aborted"), ("b", "1")]
    compact(log)
    assert pairs(log) == pairs(log, committed=True) == [("a", "old"), ("b", "1")]
    assert [one.producer_id for one in log.segments.first.txn_index.entries()] == [5]
    # The aborted records are removed; the last batch of the producer is kept empty.
    log.producers.remove_expired(NOW_MS + 10**12)
    for later_ms in (1, COMPACTED.delete_retention_ms + 1, 2 * COMPACTED.delete_retention_ms + 2):
        append_keyed(log, ("c", f"{later_ms}"))
        roll(log)
        compact(log, NOW_MS + later_ms)
    control = [header.base_offset for s in log.segments for _, header in s.batches() if header.is_control]
    assert control == [4]
    assert not list(log.segments.first.txn_index.entries())
    check_indexes(log.segments.first, is_sealed=True)


def test_records_of_an_open_transaction_are_not_compacted(log: PartitionLog) -> None:
    append_keyed(log, ("a", "1"))
    roll(log)
    append_keyed(log, ("a", "2"), producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    roll(log)
    append_keyed(log, ("a", "3"))
    roll(log)
    assert find_cleanable(log, NOW_MS).end_offset == 1
    compact(log)
    assert pairs(log) == [("a", "1"), ("a", "2"), ("a", "3")]


def test_records_below_the_log_start_are_ignored(log: PartitionLog) -> None:
    append_keyed(log, ("a", "1"), ("b", "1"))
    append_keyed(log, ("b", "2"))
    roll(log)
    log.advance_log_start_offset(1)
    compact(log)
    assert pairs(log) == [("b", "2")]
    assert log.log_start_offset == 1


def test_corruption_is_reported_and_leaves_no_temporary_file(
    disk: CrashFileSystem, log: PartitionLog
) -> None:
    append_keyed(log, ("a", "1"), ("a", "2"))
    roll(log)
    path = log.segments.first.file.path
    disk.flip_bit(path, 8 * 70)
    with pytest.raises(CorruptLog, match="checksum"):
        compact(log)
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith((".cleaned", ".swap"))]


def test_a_full_disk_leaves_the_log_unchanged(disk: CrashFileSystem, log: PartitionLog) -> None:
    for number in range(40):
        append_keyed(log, (f"{number}", "x" * 200), ("a", "y"))
    roll(log)
    before = pairs(log)
    disk.free_bytes = 2000
    with pytest.raises(OSError, match="No space"):
        compact(log)
    assert pairs(log) == before
    assert disk.free_bytes == 2000
    disk.free_bytes = None
    compact(log)
    assert latest_of(read_log(log)).keys() == {record.key for record in read_log(log)}


def test_an_interrupted_compaction_leaves_no_temporary_file(disk: CrashFileSystem, log: PartitionLog) -> None:
    append_keyed(log, ("a", "1"), ("a", "2"))
    append_keyed(log, ("b", "1"))
    roll(log)
    calls = 0

    def pace(size_bytes: int) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:  # the write
            raise TimeoutError("enough")

    with pytest.raises(TimeoutError):
        compact(log, pace=pace)
    assert not [name for name in disk.listdir(DIRECTORY) if name.endswith((".cleaned", ".swap"))]
    assert len(read_log(log)) == 3


def test_a_second_round_without_new_records_changes_nothing(log: PartitionLog) -> None:
    append_keyed(log, ("a", "1"), ("b", "1"), ("a", "2"))
    append_keyed(log, ("c", None))
    roll(log)
    compact(log)
    before = log.segments.first.file.pread(10_000, 0)
    log.set_first_dirty_offset(None)
    compact(log)
    assert log.segments.first.file.pread(10_000, 0) == before


def test_a_compacted_log_is_equal_after_it_is_reopened(disk: CrashFileSystem, log: PartitionLog) -> None:
    for number in range(30):
        append_keyed(log, (f"{number % 7}", f"{number}"), (f"{number % 3}", "x"))
        if number % 10 == 9:
            roll(log)
    compact(log)
    before = read_log(log)
    log.close(clean=True)
    for clean in (True, False):
        reopened = open_log(disk, COMPACTED, clean=clean)
        reopened.advance_high_watermark(reopened.log_end_offset)
        assert read_log(reopened) == before
        check_log(reopened)
        reopened.close(clean=False)


def test_a_batch_with_too_many_records_is_refused_before_it_uses_memory(
    log: PartitionLog,
) -> None:
    record_count = 40 * RECORDS_MAX
    records = compress(Compression.ZSTD, bytes(7 * record_count))
    data = bytearray(BATCH_OVERHEAD) + records
    header = read_header(keyed_batch([("a", "1")], compression=Compression.ZSTD))
    header = header._replace(
        batch_length=len(data) - LOG_OVERHEAD, record_count=record_count, last_offset_delta=record_count - 1
    )
    write_header(data, 0, header)
    log.update_config(replace(COMPACTED, cleanup_policy=("delete",)))  # batches are not parsed
    log.append_as_leader(data, 0, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    log.update_config(COMPACTED)
    roll(log)
    with pytest.raises(DecodeError, match=f"at most {RECORDS_MAX}"):
        compact(log)


@pytest.mark.parametrize("base_timestamp", [-(2**63), 2**63 - 1])
def test_an_invalid_base_timestamp_does_not_prevent_compaction(
    log: PartitionLog, base_timestamp: int
) -> None:
    log.update_config(replace(COMPACTED, cleanup_policy=("delete",)))  # batches are not parsed
    for records in ((("a", "1"), ("b", None)), (("a", "2"),)):
        data = keyed_batch(records, timestamps=[NOW_MS, NOW_MS + 1][: len(records)])
        write_header(data, 0, read_header(data)._replace(base_timestamp=base_timestamp))
        log.append_as_leader(data, 0, NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    log.update_config(COMPACTED)
    roll(log)
    compact(log)
    batches = [(header.base_offset, header.record_count) for _, header in log.segments.first.batches()]
    assert batches == [(0, 1), (2, 1)]


def test_memory_is_bounded_by_the_window(log: PartitionLog) -> None:
    for number in range(64):
        append_keyed(log, (f"{number}", "stays"))
        append_keyed(log, ("a", "x" * 500_000))
    roll(log)
    tracemalloc.start()
    try:
        compact(log, io_buffer_bytes=50_000)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(read_log(log)) == 65
    assert peak_bytes < 4 * WINDOW_BYTES


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 1 - NOW_MS])
def test_tombstones_are_kept_for_ever_with_the_largest_delete_retention(
    disk: CrashFileSystem, retention_ms: int
) -> None:
    log = open_log(disk, replace(COMPACTED, delete_retention_ms=retention_ms))
    append_keyed(log, ("a", "1"), ("b", "1"))
    append_keyed(log, ("a", None), ("b", "2"))
    roll(log)
    compact(log)
    log.set_first_dirty_offset(None)
    compact(log, NOW_MS + 10**12)
    assert pairs(log) == [("a", None), ("b", "2")]
    assert [record.timestamp for record in read_log(log)] == [NOW_MS, NOW_MS]
    check_log(log)
