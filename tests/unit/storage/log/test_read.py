"""Reads return complete batches of one segment below the bound."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import append, append_marker, batch, open_log
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import BOUNDARIES_MAX
from tidelog.storage.segment.txn_index import AbortedTransaction
from tidelog.testing.simulation.crash_file_system import CrashFile, CrashFileSystem

SMALL = log_config(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)
BATCH_BYTES = len(batch(["xx"]))


@pytest.fixture
def log() -> PartitionLog:
    """Return a log of twelve batches of two records in several segments."""
    log = open_log(CrashFileSystem(), SMALL)
    for _ in range(12):
        append(log, "x", "x")
    return log


def offsets_read(log: PartitionLog, offset: int, max_bytes: int, **options: object) -> list[int]:
    """Return the base offsets of the batches that a read returns."""
    records = log.read(offset, max_bytes, **options).records  # type: ignore[arg-type]
    return [] if records is None else [header.base_offset for _, header in iterate_headers(records.read())]


def batch_bytes(log: PartitionLog) -> int:
    return next(header.size_bytes for _, header in log.segments.first.batches())


def test_a_read_ends_at_the_segment_end(log: PartitionLog) -> None:
    first, second = log.segments.base_offsets[:2]
    assert offsets_read(log, 0, 10_000) == list(range(first, second, 2))


def test_a_read_at_an_offset_within_a_batch_returns_the_batch(log: PartitionLog) -> None:
    assert offsets_read(log, 3, 10_000)[0] == 2


@pytest.mark.parametrize("count", [1, 2, 3])
def test_complete_batches_up_to_the_maximum_size_are_read(log: PartitionLog, count: int) -> None:
    size = batch_bytes(log)
    assert len(offsets_read(log, 0, count * size)) == count
    assert len(offsets_read(log, 0, (count + 1) * size - 1)) == count


def test_a_first_batch_above_the_maximum_size_is_returned_only_if_required(log: PartitionLog) -> None:
    assert offsets_read(log, 4, 1) == []
    assert offsets_read(log, 4, 0, at_least_one=True) == [4]
    assert offsets_read(log, 4, batch_bytes(log) - 1, at_least_one=True) == [4]


def test_records_at_or_beyond_the_upper_bound_are_not_read(log: PartitionLog) -> None:
    assert offsets_read(log, 0, 10_000, upper_bound=4) == [0, 2]
    assert offsets_read(log, 0, 10_000, upper_bound=5) == [0, 2], "a batch across the bound is not read"
    assert offsets_read(log, 4, 10_000, upper_bound=4) == []
    assert offsets_read(log, 6, 10_000, upper_bound=4, at_least_one=True) == []
    assert offsets_read(log, 4, 10_000, upper_bound=5, at_least_one=True) == []
    assert offsets_read(log, 0, 10_000, upper_bound=10**9) == offsets_read(log, 0, 10_000)


def test_a_read_at_the_log_end_is_empty(log: PartitionLog) -> None:
    result = log.read(24, 100)
    assert result.records is None
    assert result.aborted_transactions is None


@pytest.mark.parametrize("offset", [-1, 25, 10**9])
def test_offsets_outside_the_log_are_refused(log: PartitionLog, offset: int) -> None:
    with pytest.raises(KafkaError) as caught:
        log.read(offset, 100)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_result_has_the_offsets_of_the_log(log: PartitionLog) -> None:
    log.advance_log_start_offset(3)
    result = log.read(3, 100)
    assert (result.log_start_offset, result.high_watermark, result.last_stable_offset) == (3, 24, 24)
    assert result.records is not None
    assert (result.records.file, result.records.position) == (log.segments.first.file, batch_bytes(log))


def test_a_read_continues_over_a_gap() -> None:
    log = open_log(CrashFileSystem(), SMALL)
    log.append_as_follower(batch(["a"]), NOW_MS)
    log.append_as_follower(batch(["b"], base_offset=10), NOW_MS)
    assert offsets_read(log, 1, 1_000) == [10]
    assert offsets_read(log, 5, 1_000) == [10]


def test_a_read_continues_in_the_next_segment_when_the_offset_is_absent() -> None:
    log = open_log(CrashFileSystem(), SMALL)
    log.append_as_follower(batch(["a"]), NOW_MS)
    log.roll(NOW_MS, 10)
    log.append_as_follower(batch(["b"], base_offset=10), NOW_MS)
    assert offsets_read(log, 5, 1_000) == [10]


def test_readable_bytes_are_counted_over_segments_up_to_the_bound(log: PartitionLog) -> None:
    size = batch_bytes(log)
    assert log.readable_bytes(0, 24) == 12 * size == log.size_bytes
    assert log.readable_bytes(2, 23) == 10 * size
    assert log.readable_bytes(3, 4) == size
    assert log.readable_bytes(7, 7) == log.readable_bytes(9, 7) == 0


def test_aborted_transactions_of_the_read_batches_are_returned() -> None:
    log = open_log(CrashFileSystem(), SMALL)
    for producer_id in (1, 2):
        options = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
        append(log, "t" * 30, is_transactional=True, **options)
    append_marker(log, 1, is_abort=True)
    append(log, "x" * 100)
    append_marker(log, 2, is_abort=True)
    first, second = AbortedTransaction(1, 0, 2, 1), AbortedTransaction(2, 1, 4, 5)
    assert len(log.segments) > 1
    assert log.aborted_transactions(0, 5) == [first, second]
    size = next(header.size_bytes for _, header in log.segments.first.batches())
    result = log.read(0, size, with_aborted_transactions=True)
    assert result.aborted_transactions == [first], "only transactions that overlap the batch that was read"
    result = log.read(1, size, with_aborted_transactions=True)
    assert result.aborted_transactions == [first, second]
    assert log.read(5, size, with_aborted_transactions=True).aborted_transactions == []


def count_preads(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    original = CrashFile.pread

    def count_call(self: CrashFile, length: int, position: int) -> bytes:
        calls.append(f"{self.path} {position} {length}")
        return original(self, length, position)

    monkeypatch.setattr(CrashFile, "pread", count_call)
    return calls


def test_a_read_at_the_log_end_needs_no_disk_access(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(CrashFileSystem(), log_config(index_interval_bytes=0))
    append(log, "first")
    append(log, "second")
    calls = count_preads(log, monkeypatch)
    for _ in range(BOUNDARIES_MAX * 2):
        before = append(log, "x")
        result = log.read(before, 1 << 20, upper_bound=log.high_watermark, at_least_one=True)
        assert result.records is not None
        assert log.readable_bytes(before, log.high_watermark) == result.records.length
    assert calls == []


def test_a_sequential_read_needs_no_index_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(CrashFileSystem(), log_config(index_interval_bytes=1_000))
    for _ in range(BOUNDARIES_MAX * 4):
        append(log, "x" * 20)
    log.roll(NOW_MS)
    calls = count_preads(log, monkeypatch)
    offset = 0
    while offset < 500:
        offset = offsets_read(log, offset, 3_000)[-1] + 1
    by_index = [call for call in calls if ".index" in call]
    reads = [call for call in calls if ".log" in call]
    assert len(by_index) <= len(reads)
    assert all(int(call.split()[-1]) <= 8 * 1024 for call in reads)


def test_a_slice_stays_readable_after_deletion_of_the_file_and_the_log(tmp_path: Path) -> None:
    config = log_config(retention_ms=0, file_delete_delay_ms=0)
    log = open_log(OsFileSystem(), config, directory=str(tmp_path / "events-0"))
    append(log, "value")
    records = log.read(0, 1_000).records
    assert records is not None
    before = records.read()
    log.retention.apply(NOW_MS + 1)
    log.retention.delete_expired_files(NOW_MS + 1)
    del log
    assert not [name for name in (tmp_path / "events-0").iterdir() if "deleted" in name.name]
    assert records.read() == before
    assert len(before) == records.length


def test_invalid_batches_are_reported_with_their_file() -> None:
    disk = CrashFileSystem()
    log = open_log(disk, SMALL)
    append(log, "a")
    append(log, "b")
    path = log.segments.active.file.path
    log.close(clean=True, now_ms=NOW_MS)
    log = open_log(disk, SMALL, clean=True)
    disk.flip_bit(path, 16 * 8 + 6)
    with pytest.raises(KafkaError, match=r"00000000000000000000\.log") as caught:
        log.read(1, 100)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
