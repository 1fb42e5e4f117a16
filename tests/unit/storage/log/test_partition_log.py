"""Appends, rolls and offsets of a partition log."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.log_checks import check_log
from tests.support.logs.partition_logs import (
    DIRECTORY,
    all_records,
    append,
    append_marker,
    batch,
    end_marker,
    open_log,
    values_of,
)
from tidelog.protocol.batch import read_header
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.txn_index import AbortedTransaction
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

EPOCHS = f"{DIRECTORY}/leader-epoch-checkpoint"
SMALL = log_config(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)


@pytest.fixture
def disk() -> CrashFileSystem:
    return CrashFileSystem()


@pytest.fixture
def log(disk: CrashFileSystem) -> PartitionLog:
    return open_log(disk)


def producer_batch(
    *values: str, sequence: int, producer_id: int = 9, epoch: int = 0, **more: Any
) -> bytearray:
    return batch(values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **more)


class TestAppend:
    """append_as_leader."""

    def test_consecutive_offsets_are_assigned_in_the_stored_bytes(self, log: PartitionLog) -> None:
        assert append(log, "a", "b") == 0
        assert append(log, "c", leader_epoch=4) == 2
        assert log.log_end_offset == 3
        records = log.read(2, 1_000).records
        assert records is not None
        header = read_header(records.read())
        assert (header.base_offset, header.partition_leader_epoch) == (2, 4)
        assert values_of(log) == ["a", "b", "c"]

    def test_the_append_result_has_the_offsets_of_the_batch(self, log: PartitionLog) -> None:
        append(log, "a")
        data = batch(["b", "c"], timestamps=[NOW_MS + 3, NOW_MS])
        info = log.append_as_leader(data, 0, NOW_MS)
        assert (info.first_offset, info.last_offset) == (1, 2)
        assert (log.segments.active.max_timestamp, info.log_append_time) == (NOW_MS + 3, -1)
        assert (info.log_start_offset, info.size_bytes, info.is_duplicate) == (0, len(data), False)

    def test_log_append_time_is_reported(self, disk: CrashFileSystem) -> None:
        log = open_log(disk, log_config(message_timestamp_type="LogAppendTime"))
        info = log.append_as_leader(batch(["a"], timestamps=5), 0, NOW_MS + 9)
        assert (log.segments.active.max_timestamp, info.log_append_time) == (NOW_MS + 9, NOW_MS + 9)
        assert all_records(log)[0].timestamp == NOW_MS + 9

    def test_trailing_bytes_after_the_batch_are_not_stored(self, log: PartitionLog) -> None:
        data = batch(["a"])
        log.append_as_leader(data + data[:30], 0, NOW_MS)
        assert log.size_bytes == len(data)

    def test_records_in_a_larger_buffer_are_changed_in_place(self, log: PartitionLog) -> None:
        append(log, "before")
        request = bytearray(b"head") + batch(["a"]) + b"tail"
        log.append_as_leader(memoryview(request)[4:-4], 7, NOW_MS)
        assert read_header(request, 4).base_offset == 1
        assert values_of(log) == ["before", "a"]

    def test_an_append_beyond_segment_bytes_is_refused(self, disk: CrashFileSystem) -> None:
        log = open_log(disk, SMALL)
        with pytest.raises(KafkaError) as caught:
            append(log, "x" * 500)
        assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE
        assert log.log_end_offset == 0

    def test_changed_configs_apply_from_the_next_append(self, log: PartitionLog) -> None:
        append(log, "x" * 500)
        log.update_config(log_config(max_message_bytes=200))
        with pytest.raises(KafkaError) as caught:
            append(log, "x" * 500)
        assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE

    def test_leader_epochs_are_durable_before_the_recovery_point_passes_them(
        self, disk: CrashFileSystem
    ) -> None:
        log = open_log(disk)
        append(log, "a", leader_epoch=1)
        append(log, "b", leader_epoch=1)
        append(log, "c", leader_epoch=5)
        assert log.leader_epochs.entries == [EpochEntry(1, 0), EpochEntry(5, 2)]
        plan = log.durability.flush_plan()
        plan.run()
        assert (log.durability.recovery_point, disk.read(EPOCHS)) == (0, b"0\n2\n1 0\n5 2\n")
        log.durability.flushed(plan, NOW_MS)
        assert log.durability.recovery_point == 3

    def test_a_new_leader_epoch_adds_no_sync_to_an_append(self, disk: CrashFileSystem) -> None:
        log = open_log(disk)
        append(log, "a", leader_epoch=1)
        log.flush(NOW_MS)
        disk.operations.clear()
        log.epoch_file.note(2, 1)
        append(log, "b", leader_epoch=2)
        append(log, "c", leader_epoch=3)
        assert [each for each in disk.operations if not each.startswith("append")] == []

    def test_an_epoch_without_records_is_not_checkpointed(self, disk: CrashFileSystem) -> None:
        log = open_log(disk)
        append(log, "a", leader_epoch=1)
        log.flush(NOW_MS)
        log.epoch_file.note(3, log.log_end_offset)
        assert log.leader_epochs.end_offset_for(1, log.log_end_offset) == (1, 1)
        log.flush(NOW_MS)
        assert disk.read(EPOCHS) == b"0\n1\n1 0\n"
        append(log, "b", leader_epoch=3)
        log.flush(NOW_MS)
        assert disk.read(EPOCHS) == b"0\n2\n1 0\n3 1\n"
        disk.operations.clear()
        append(log, "c", leader_epoch=3)
        log.flush(NOW_MS)
        assert not any("leader-epoch" in each for each in disk.operations)

    def test_an_epoch_without_records_is_checkpointed_with_the_next_ones(self, disk: CrashFileSystem) -> None:
        log = open_log(disk)
        append(log, "a", leader_epoch=1)
        log.epoch_file.note(3, 1)
        log.epoch_file.note(4, 1)
        append(log, "b", leader_epoch=4)
        log.flush(NOW_MS)
        assert log.leader_epochs.entries == [EpochEntry(1, 0), EpochEntry(4, 1)]
        assert disk.read(EPOCHS) == b"0\n2\n1 0\n4 1\n"

    def test_an_unwritten_epoch_is_removed_by_a_truncation(self, disk: CrashFileSystem) -> None:
        log = open_log(disk)
        append(log, "a", leader_epoch=1)
        log.epoch_file.note(3, 1)
        log.truncate_to(1, NOW_MS)
        assert log.leader_epochs.entries == [EpochEntry(1, 0)]
        append(log, "b", leader_epoch=1)
        assert log.leader_epochs.entries == [EpochEntry(1, 0)]
        assert disk.read(EPOCHS) == b"0\n1\n1 0\n"


class TestQuorum:
    """append_as_leader for the metadata log, whose batches already have offsets and epochs."""

    def test_follower_batches_with_the_expected_offsets_and_epoch_are_appended_unchanged(
        self, log: PartitionLog
    ) -> None:
        data = batch(["a"], leader_epoch=2) + batch(["b"], base_offset=1, leader_epoch=2)
        before = bytes(data)
        info = log.append_as_leader(data, 2, NOW_MS, origin=AppendOrigin.RAFT)
        assert (info.first_offset, info.last_offset) == (0, 1)
        assert data == before

    @pytest.mark.parametrize(("base_offset", "epoch"), [(0, 2), (5, 3)])
    def test_follower_batches_with_other_offsets_or_epochs_are_refused(
        self, log: PartitionLog, base_offset: int, epoch: int
    ) -> None:
        append(log, "a", leader_epoch=2)
        data = batch(["b"], base_offset=base_offset, leader_epoch=epoch)
        with pytest.raises(KafkaError):
            log.append_as_leader(data, 2, NOW_MS, origin=AppendOrigin.RAFT)
        assert log.log_end_offset == 1

    def test_a_truncated_batch_is_refused(self, log: PartitionLog) -> None:
        data = batch(["a"], leader_epoch=2)
        with pytest.raises(KafkaError) as caught:
            log.append_as_leader(data[:-1], 2, NOW_MS, origin=AppendOrigin.RAFT)
        assert caught.value.code is ErrorCode.INVALID_RECORD


class TestFollower:
    """append_as_follower."""

    def test_follower_batches_are_appended_unchanged(self, log: PartitionLog) -> None:
        data = batch(["a", "b"], leader_epoch=1) + batch(["c"], base_offset=2, leader_epoch=3)
        info = log.append_as_follower(bytes(data), NOW_MS)
        assert info is not None
        assert (info.first_offset, info.last_offset) == (0, 2)
        assert values_of(log) == ["a", "b", "c"]
        assert log.leader_epochs.entries == [EpochEntry(1, 0), EpochEntry(3, 2)]

    def test_a_truncated_last_batch_is_ignored(self, log: PartitionLog) -> None:
        data = batch(["a"]) + batch(["b"], base_offset=1)[:-1]
        log.append_as_follower(data, NOW_MS)
        assert values_of(log) == ["a"]
        assert log.append_as_follower(batch(["b"], base_offset=1)[:40], NOW_MS) is None

    def test_offsets_may_skip_forwards_but_not_decrease(self, log: PartitionLog) -> None:
        log.append_as_follower(batch(["a"], base_offset=10), NOW_MS)
        assert log.log_end_offset == 11
        with pytest.raises(KafkaError) as caught:
            log.append_as_follower(batch(["b"], base_offset=10), NOW_MS)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE

    def test_an_append_of_more_batches_than_index_entries_succeeds(self, disk: CrashFileSystem) -> None:
        log = open_log(disk, log_config(index_interval_bytes=1, segment_index_bytes=24))
        data = b"".join(batch([str(at)], base_offset=at, timestamps=NOW_MS + at) for at in range(10))
        log.append_as_follower(data, NOW_MS)
        log.append_as_follower(batch(["10"], base_offset=10), NOW_MS)
        assert len(log.segments.base_offsets) == 2, "the segment with the full index was rolled"
        assert values_of(log) == [str(at) for at in range(11)]
        assert log.segments.first.find(9) is not None
        log.close(clean=False, now_ms=NOW_MS)
        assert values_of(open_log(disk, log.config, clean=False)) == [str(at) for at in range(11)]

    def test_a_failure_after_the_write_removes_the_records(
        self, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(LogSegment, "_index_batch", lambda *_: 1 // 0)
            for append_one in (
                lambda: log.append_as_follower(batch(["a"]), NOW_MS),
                lambda: log.append_as_leader(batch(["a"]), 0, NOW_MS),
            ):
                with pytest.raises(ZeroDivisionError):
                    append_one()
        assert log.segments.active.size_bytes == 0
        append(log, "b")
        assert values_of(log) == ["b"]

    def test_an_offset_over_64_bits_is_a_corrupt_message(self, log: PartitionLog) -> None:
        for beyond in (2**63 - 1, 2**63 - 2):
            with pytest.raises(KafkaError) as caught:
                log.append_as_follower(batch(["a", "b"], base_offset=beyond), NOW_MS)
            assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert log.log_end_offset == 0

    def test_a_corrupt_batch_refuses_the_whole_append(self, log: PartitionLog) -> None:
        second = batch(["b"], base_offset=1)
        second[-1] ^= 1
        with pytest.raises(KafkaError) as caught:
            log.append_as_follower(batch(["a"]) + second, NOW_MS)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert log.log_end_offset == 0

    def test_batches_of_a_later_epoch_than_the_leaders_are_ignored(self, log: PartitionLog) -> None:
        data = batch(["a"], leader_epoch=1) + batch(["b"], base_offset=1, leader_epoch=2)
        log.append_as_follower(data, NOW_MS, leader_epoch=1)
        assert values_of(log) == ["a"]

    def test_transactions_are_tracked(self, log: PartitionLog) -> None:
        marker = end_marker(9, is_abort=True)
        data = producer_batch("a", sequence=0, is_transactional=True)
        log.append_as_leader(data, 0, NOW_MS)
        log.append_as_leader(marker, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
        copy = open_log(CrashFileSystem())
        copy.append_as_follower(data + marker, NOW_MS)
        assert copy.aborted_transactions(0, 2) == [AbortedTransaction(9, 0, 1, 2)]


class TestProducers:
    """Idempotent and transactional producers at the log."""

    def test_a_duplicate_batch_gets_its_first_offsets_and_is_not_stored_again(
        self, log: PartitionLog
    ) -> None:
        append(log, "before")
        for sequence in range(5):
            log.append_as_leader(producer_batch("a", sequence=sequence), 0, NOW_MS)
        for sequence in range(5):
            info = log.append_as_leader(producer_batch("a", sequence=sequence), 0, NOW_MS)
            assert (info.first_offset, info.last_offset, info.is_duplicate) == (
                sequence + 1,
                sequence + 1,
                True,
            )
        assert log.log_end_offset == 6

    def test_an_out_of_order_sequence_is_refused_without_a_change(self, log: PartitionLog) -> None:
        log.append_as_leader(producer_batch("a", sequence=0), 0, NOW_MS)
        for sequence, epoch, code in (
            (2, 0, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
            (1, -1, "INVALID_PRODUCER_EPOCH"),
        ):
            with pytest.raises(KafkaError) as caught:
                log.append_as_leader(producer_batch("b", sequence=sequence, epoch=epoch), 0, NOW_MS)
            assert caught.value.code.name == code
        log.append_as_leader(producer_batch("b", sequence=1), 0, NOW_MS)
        assert values_of(log) == ["a", "b"]

    def test_producer_state_survives_a_restart_and_a_crash(self, disk: CrashFileSystem) -> None:
        log = open_log(disk)
        log.append_as_leader(producer_batch("a", "b", sequence=0), 0, NOW_MS)
        log.close(clean=True, now_ms=NOW_MS)
        for clean in (True, False):
            log = open_log(disk, clean=clean)
            assert log.append_as_leader(producer_batch("a", "b", sequence=0), 0, NOW_MS).is_duplicate

    def test_read_committed_stops_at_the_first_open_transaction(self, log: PartitionLog) -> None:
        append(log, "a")
        for producer_id in (1, 2):
            data = producer_batch("t", sequence=0, producer_id=producer_id, is_transactional=True)
            log.append_as_leader(data, 0, NOW_MS)
        append(log, "b")
        assert log.last_stable_offset == 1
        append_marker(log, 1, is_abort=False)
        assert log.last_stable_offset == 2
        append_marker(log, 2, is_abort=True)
        assert log.last_stable_offset == log.log_end_offset == 6
        assert log.aborted_transactions(0, 6) == [AbortedTransaction(2, 2, 5, 6)]

    def test_a_marker_ends_a_transaction_once_it_is_replicated(self, log: PartitionLog) -> None:
        log.append_as_leader(producer_batch("t", sequence=0, is_transactional=True), 0, NOW_MS)
        log.append_as_leader(end_marker(9), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
        assert (log.high_watermark, log.last_stable_offset) == (0, 0)
        log.advance_high_watermark(1)
        assert log.last_stable_offset == 0
        log.advance_high_watermark(2)
        assert log.last_stable_offset == 2

    def test_an_invalid_control_batch_is_refused(self, log: PartitionLog) -> None:
        builder = end_marker(9)
        bad = bytearray(builder)
        bad[-12] ^= 0x40
        with pytest.raises(KafkaError):
            log.append_as_leader(bad, 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
        assert log.log_end_offset == 0


class TestRoll:
    """Rolling of segments."""

    def test_a_full_segment_is_rolled(self, disk: CrashFileSystem) -> None:
        log = open_log(disk, SMALL)
        for index in range(12):
            append(log, f"{index}" + "x" * 50)
        assert len(log.segments) > 2
        assert all(segment.size_bytes <= 400 for segment in log.segments)
        assert [value.rstrip("x") for value in values_of(log)] == [str(index) for index in range(12)]
        check_log(log)

    def test_segment_ms_is_measured_in_record_timestamps(self, disk: CrashFileSystem) -> None:
        log = open_log(disk, log_config(segment_ms=1_000))
        append(log, "a", timestamps=5_000)
        append(log, "b", timestamps=6_000)
        assert len(log.segments) == 1
        append(log, "c", timestamps=6_001)
        assert log.segments.base_offsets == [0, 2]

    def test_segment_ms_uses_the_clock_for_records_without_timestamps(self, disk: CrashFileSystem) -> None:
        log = open_log(disk, log_config(segment_ms=1_000))
        for now_ms in (NOW_MS, NOW_MS + 1_000, NOW_MS + 1_001):
            log.append_as_leader(batch(["a"], timestamps=-1), 0, now_ms)
        assert log.segments.base_offsets == [0, 2]

    def test_segment_jitter_is_applied_deterministically(self, disk: CrashFileSystem) -> None:
        config = log_config(segment_ms=1_000, segment_jitter_ms=500)
        log = open_log(disk, config)
        jitter = log.segments.active.roll_jitter_ms
        assert 0 <= jitter < 500
        assert open_log(disk, config).segments.active.roll_jitter_ms == jitter
        append(log, "a", timestamps=5_000)
        append(log, "b", timestamps=6_001 - jitter)
        assert len(log.segments) == 2

    def test_a_full_index_rolls_the_segment(self, disk: CrashFileSystem) -> None:
        log = open_log(disk, log_config(index_interval_bytes=0, segment_index_bytes=24))
        for index in range(8):
            append(log, "a", timestamps=NOW_MS + index)
        assert len(log.segments) > 2
        check_log(log)

    def test_an_offset_beyond_the_index_range_rolls_the_segment(self, disk: CrashFileSystem) -> None:
        log = open_log(disk)
        log.append_as_follower(batch(["a"]), NOW_MS)
        log.append_as_follower(batch(["b"], base_offset=2**31 - 1), NOW_MS)
        log.append_as_follower(batch(["c"], base_offset=2**31), NOW_MS)
        log.append_as_follower(batch(["d"], base_offset=2**33), NOW_MS)
        assert log.segments.base_offsets == [0, 2**31, 2**33]
        assert values_of(log) == ["a", "b", "c", "d"]

    def test_rolling_an_empty_segment_has_no_effect(self, log: PartitionLog) -> None:
        assert log.roll(NOW_MS).base_offset == 0
        assert len(log.segments) == 1

    def test_a_rolled_segment_has_its_maximum_timestamp_in_the_time_index(self, log: PartitionLog) -> None:
        append(log, "a", timestamps=NOW_MS + 50)
        append(log, "b", timestamps=NOW_MS)
        log.roll(NOW_MS)
        assert log.segments.first.time_index.last_entry == (NOW_MS + 50, 0)

    def test_a_producer_snapshot_is_written_at_each_roll(self, disk: CrashFileSystem) -> None:
        log = open_log(disk)
        log.append_as_leader(producer_batch("a", sequence=0), 0, NOW_MS)
        log.roll(NOW_MS)
        assert disk.exists(f"{DIRECTORY}/00000000000000000001.snapshot")

    def test_a_segment_can_be_rolled_by_the_clock(self, disk: CrashFileSystem) -> None:
        log = open_log(disk, log_config(segment_ms=1_000))
        assert not log.maybe_roll(NOW_MS + 10_000)
        append(log, "a")
        assert not log.maybe_roll(NOW_MS + 1_000)
        assert log.maybe_roll(NOW_MS + 1_001)
        assert not log.maybe_roll(NOW_MS + 9_000)
