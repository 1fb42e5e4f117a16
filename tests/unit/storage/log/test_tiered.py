"""The local log start and the remote end of a tiered log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import (
    DIRECTORY,
    LOG_OPTIONS,
    TOPIC_PARTITION,
    append,
    append_marker,
    batch,
    open_log,
    values_of,
)
from tests.support.logs.tiered_logs import TIERED, three_segments, tiered_log
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import Offset, TopicPartition
from tidelog.protocol.steps import run_steps
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.log.observer import NoObserver
from tidelog.storage.log.opening import CheckpointedState, LogLocation
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.truncation import RemoteState
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


def test_an_offset_below_the_local_log_start_is_not_out_of_range() -> None:
    log = three_segments(highest_remote=3)
    log.retention.apply(NOW_MS)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 4, 6)
    for offset, code in (
        (0, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE),
        (3, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE),
        (7, ErrorCode.OFFSET_OUT_OF_RANGE),
    ):
        with pytest.raises(KafkaError) as refused:
            log.read(offset, 1_000)
        assert refused.value.code is code, offset
    assert log.read(4, 1_000).records is not None
    log.advance_log_start_offset_from_remote(2)
    with pytest.raises(KafkaError) as refused:
        log.read(1, 1_000)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_kafka_16073_no_offset_is_out_of_range_while_segments_are_tiered() -> None:
    """At each step of retention an offset is local or known to be remote."""
    log = three_segments(highest_remote=3)
    steps = []

    def read_all_offsets() -> None:
        for offset in range(log.log_end_offset):
            try:
                records = log.read(offset, 1_000).records
                assert records is not None
                assert records.read()
            except KafkaError as error:
                assert error.code is ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
        steps.append(log.local_log_start_offset)

    read_all_offsets()
    expired = log.retention.expire_segments(NOW_MS)
    read_all_offsets()
    for segment in expired:
        log.retention.remove_expired([segment], NOW_MS)
        read_all_offsets()
    assert steps == [0, 4, 4, 4]


def test_kafka_15352_segments_are_deleted_after_the_log_start_is_durable() -> None:
    log_start_changes: list[tuple[Offset, int]] = []

    class Observer(NoObserver):
        def log_start_offset_changed(self, topic_partition: TopicPartition, log_start_offset: Offset) -> None:
            log_start_changes.append((log_start_offset, len(log.segments)))

        def recovery_point_lowered(self, topic_partition: TopicPartition) -> None:
            raise AssertionError("nothing is truncated")

    log = three_segments(highest_remote=3, observer=Observer())
    log.flush(NOW_MS)
    log.advance_log_start_offset(1)
    log.retention.apply(NOW_MS)
    assert log_start_changes == [(1, 4)]


def test_kafka_20732_a_new_leader_deletes_nothing_before_the_remote_end_is_known() -> None:
    log = three_segments(highest_remote=5)
    log.remote_border.forget()
    assert log.retention.apply(NOW_MS) == 0
    log.remote_border.raise_highest_offset(5)
    assert log.retention.apply(NOW_MS) == 3


def test_the_highest_remote_offset_never_decreases() -> None:
    log = three_segments(highest_remote=3)
    log.remote_border.raise_highest_offset(1)
    assert log.highest_offset_in_remote_storage == 3
    log.remote_border.forget()
    log.remote_border.raise_highest_offset(-1)
    assert (log.highest_offset_in_remote_storage, log.remote_border.is_remote_log_known) == (3, True)


def test_a_followers_highest_remote_offset_is_limited_by_its_log_end() -> None:
    log = three_segments(highest_remote=100)
    assert log.highest_offset_in_remote_storage == 5


def test_a_truncation_lowers_the_highest_remote_offset() -> None:
    log = three_segments(highest_remote=5)
    log.truncate_to(3, NOW_MS, below_high_watermark=True)
    assert log.highest_offset_in_remote_storage == log.log_end_offset - 1 == 1
    append(log, "other", leader_epoch=1)
    log.roll(NOW_MS)
    assert [segment.base_offset for segment in log.retention.expire_segments(NOW_MS)] == [0]


def test_an_untiered_log_has_no_remote_offset_and_starts_at_its_local_log_start() -> None:
    log = three_segments(replace(TIERED, remote_storage_enable=False, retention_bytes=0))
    log.remote_border.raise_highest_offset(3)
    assert (log.highest_offset_in_remote_storage, log.remote_border.is_remote_log_known) == (-1, False)
    assert not log.advance_log_start_offset_from_remote(2)
    log.retention.apply(NOW_MS)
    assert log.log_start_offset == log.local_log_start_offset == 6


def test_a_node_without_remote_storage_treats_the_topic_as_untiered() -> None:
    disk = CrashFileSystem()
    log = PartitionLog.open(
        LogLocation(disk, DIRECTORY, TOPIC_PARTITION),
        TIERED,
        CheckpointedState(),
        now_ms=NOW_MS,
        options=replace(LOG_OPTIONS, remote_storage_system_enable=False),
    )
    assert not log.remote_log_enabled
    log.update_config(TIERED)
    assert not log.remote_log_enabled


def test_a_log_start_beyond_the_local_log_start_moves_both() -> None:
    log = three_segments(highest_remote=1)
    log.retention.apply(NOW_MS)
    assert log.local_log_start_offset == 2
    assert log.advance_log_start_offset_from_remote(5)
    assert (log.log_start_offset, log.local_log_start_offset) == (5, 5)
    assert log.retention.apply(NOW_MS) == 1, (
        "a segment below the log start is deleted although it was not copied"
    )
    assert (log.log_start_offset, log.local_log_start_offset) == (5, 5)


def test_remote_retention_cannot_move_the_log_start_past_the_high_watermark() -> None:
    log = tiered_log()
    log.append_as_leader(batch(["a"]), 0, NOW_MS)
    with pytest.raises(KafkaError, match="high watermark"):
        log.advance_log_start_offset_from_remote(1)


def test_kip_950_local_retention_moves_the_log_start_while_copying_is_disabled() -> None:
    log = three_segments(
        replace(TIERED, remote_log_copy_disable=True, retention_bytes=79, local_retention_bytes=-2)
    )
    log.retention.apply(NOW_MS)
    assert log.log_start_offset == log.local_log_start_offset == 4


def test_disabling_tiering_keeps_the_local_log() -> None:
    log = three_segments(highest_remote=3)
    log.retention.apply(NOW_MS)
    log.update_config(replace(TIERED, remote_storage_enable=False, remote_log_delete_on_disable=True))
    assert log.log_start_offset == log.local_log_start_offset == 4
    assert (log.highest_offset_in_remote_storage, log.remote_border.is_remote_log_known) == (-1, False)
    assert log.leader_epochs.entries == [EpochEntry(0, 4)]
    log.update_config(TIERED)
    assert log.remote_log_enabled
    assert log.retention.apply(NOW_MS) == 0, "nothing is known to be remote"


def test_the_active_segment_is_rolled_by_time_for_copying() -> None:
    log = tiered_log(replace(TIERED, local_retention_ms=1_000, local_retention_bytes=-1))
    append(log, "a", timestamps=NOW_MS)
    log.remote_border.raise_highest_offset(-1)
    assert log.retention.apply(NOW_MS + 1_000) == 0
    assert len(log.segments) == 1
    assert log.retention.apply(NOW_MS + 1_001) == 0
    assert log.segments.base_offsets == [0, 1]
    log.remote_border.raise_highest_offset(0)
    assert log.retention.apply(NOW_MS + 1_001) == 1
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 1)


def test_reopening_keeps_log_start_and_epochs_of_remote_records() -> None:
    disk = CrashFileSystem()
    log = tiered_log(disk=disk)
    for epoch in range(3):
        append(log, "a", "b", leader_epoch=epoch)
        log.roll(NOW_MS)
    log.remote_border.raise_highest_offset(3)
    log.retention.apply(NOW_MS)
    log.advance_log_start_offset(1)
    log.close(clean=True, now_ms=NOW_MS)
    for clean in (True, False):
        reopened_log = tiered_log(disk=disk, log_start_offset=1, clean=clean, recovery_point=6)
        assert (reopened_log.log_start_offset, reopened_log.local_log_start_offset) == (1, 4)
        assert (reopened_log.high_watermark, reopened_log.log_end_offset) == (4, 6)
        assert reopened_log.leader_epochs.entries == [EpochEntry(0, 1), EpochEntry(1, 2), EpochEntry(2, 4)]
        reopened_log.close(clean=True, now_ms=NOW_MS)
    untiered = tiered_log(
        replace(TIERED, remote_storage_enable=False), disk=disk, log_start_offset=1, clean=True
    )
    assert (untiered.log_start_offset, untiered.local_log_start_offset) == (4, 4)


def test_a_truncation_below_the_local_log_start_keeps_the_log_start() -> None:
    log = tiered_log()
    for epoch in range(3):
        append(log, "a", "b", leader_epoch=epoch)
        log.roll(NOW_MS)
    log.remote_border.raise_highest_offset(3)
    log.retention.apply(NOW_MS)
    assert log.truncate_to(3, NOW_MS, below_high_watermark=True)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 3, 3)
    assert log.leader_epochs.entries == [EpochEntry(0, 0), EpochEntry(1, 2)]
    assert log.highest_offset_in_remote_storage == 2
    append(log, "c", leader_epoch=5)
    assert values_of(log, 3) == ["c"]


def test_a_follower_continues_after_the_remote_log() -> None:
    disk = CrashFileSystem()
    leader = tiered_log()
    for index, epoch in enumerate((0, 2, 5)):
        append(leader, "a", "b", leader_epoch=epoch, producer_id=7, producer_epoch=0, base_sequence=index * 2)
        leader.roll(NOW_MS)
    path = leader.producers.snapshots.path(4)
    snapshot = leader.fs.read(path)
    log = tiered_log(disk=disk)
    append(log, "old", producer_id=9, producer_epoch=0, base_sequence=0)
    log.flush(NOW_MS)
    log.restart_from_remote(
        RemoteState(
            log_start_offset=1,
            local_log_start_offset=4,
            leader_epochs=leader.leader_epochs.entries,
            producer_snapshot=snapshot,
        ),
        NOW_MS,
    )
    for follower in (log, tiered_log(disk=disk, log_start_offset=1, recovery_point=4)):
        assert (follower.log_start_offset, follower.local_log_start_offset) == (1, 4)
        assert (follower.high_watermark, follower.log_end_offset) == (4, 4)
        assert follower.leader_epochs.entries == [EpochEntry(0, 1), EpochEntry(2, 2)]
        assert list(follower.producers.producers) == [7]
    leader_records = leader.read(4, 1_000).records
    assert leader_records is not None
    log.append_as_follower(leader_records.read(), NOW_MS)
    assert values_of(log, 4) == ["a", "b"]


def test_a_restart_at_a_lower_offset_lowers_the_recovery_point() -> None:
    """Otherwise records written there again would count as durable."""
    log = three_segments(highest_remote=5)
    log.retention.apply(NOW_MS)
    log.flush(NOW_MS)
    log.truncate_to(3, NOW_MS, below_high_watermark=True)
    assert log.durability.recovery_point == log.log_end_offset == 3


def test_an_open_transaction_in_the_remote_log_holds_the_last_stable_offset() -> None:
    leader = tiered_log()
    append(leader, "a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    leader.roll(NOW_MS)
    log = tiered_log()
    log.restart_from_remote(
        RemoteState(
            log_start_offset=0,
            local_log_start_offset=1,
            leader_epochs=leader.leader_epochs.entries,
            producer_snapshot=leader.fs.read(leader.producers.snapshots.path(1)),
        ),
        NOW_MS,
    )
    assert log.last_stable_offset == 0
    append_marker(log, 7, is_abort=False)
    assert log.last_stable_offset == 2


def test_a_corrupt_producer_snapshot_is_refused_before_the_log_is_restarted() -> None:
    log = three_segments(highest_remote=3)
    with pytest.raises(KafkaError) as refused:
        log.restart_from_remote(
            RemoteState(
                log_start_offset=0,
                local_log_start_offset=9,
                leader_epochs=[EpochEntry(0, 0)],
                producer_snapshot=b"no snapshot",
            ),
            NOW_MS,
        )
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 6
    append(log, "continued")


def test_a_log_without_remote_storage_is_not_restarted_after_remote_records() -> None:
    log = open_log(CrashFileSystem())
    append(log, "kept")
    with pytest.raises(KafkaError) as refused:
        log.restart_from_remote(
            RemoteState(
                log_start_offset=0,
                local_log_start_offset=9,
                leader_epochs=[],
                producer_snapshot=None,
            ),
            NOW_MS,
        )
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert values_of(log) == ["kept"]


def test_local_timestamp_lookups_start_at_the_local_log_start() -> None:
    log = tiered_log()
    for index in range(3):
        append(log, "a", "b", timestamps=[index * 10, index * 10 + 5])
        log.roll(NOW_MS)
    log.remote_border.raise_highest_offset(1)
    log.retention.apply(NOW_MS)
    place = run_steps(log.timestamps.first_record_from(0))
    assert place is not None
    assert (place.offset, place.timestamp) == (2, 10)


def test_a_log_without_limits_keeps_kafkas_default() -> None:
    log = three_segments(log_config(remote_storage_enable=True), highest_remote=5)
    assert log.retention.apply(NOW_MS) == 0


@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_epochs_rebuilt_from_local_records_do_not_raise_the_log_start_at_later_starts(
    damage: str,
) -> None:
    """Otherwise the next leader would delete remote segments as below the log start."""
    disk = CrashFileSystem()
    log = tiered_log(disk=disk)
    for epoch in range(3):
        append(log, "a", "b", leader_epoch=epoch)
        log.roll(NOW_MS)
    log.remote_border.raise_highest_offset(3)
    log.retention.apply(NOW_MS)
    log.close(clean=True, now_ms=NOW_MS)
    path = f"{log.directory}/leader-epoch-checkpoint"
    if damage == "gone":
        disk.unlink(path)
    else:
        file = disk.open(path, create=False)
        file.truncate(file.size() - 3)
        file.close()
    for epoch in (7, 8):
        reopened_log = tiered_log(disk=disk, clean=True)
        assert (reopened_log.log_start_offset, reopened_log.local_log_start_offset) == (0, 4)
        append(reopened_log, "c", leader_epoch=epoch)
        reopened_log.close(clean=True, now_ms=NOW_MS)


def test_a_default_cleanup_policy_of_compact_deletes_nothing_of_a_tiered_log() -> None:
    """The broker's log.cleanup.policy may change for topics without their own, and change back."""
    disk = CrashFileSystem()
    log = tiered_log(disk=disk)
    for _ in range(3):
        append(log, "a", "b")
        log.roll(NOW_MS)
    log.remote_border.raise_highest_offset(3)
    log.retention.apply(NOW_MS)
    compacted = replace(TIERED, cleanup_policy=("compact",))
    log.update_config(compacted)
    assert not log.remote_log_enabled
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)
    log.close(clean=True, now_ms=NOW_MS)
    reopened_log = tiered_log(compacted, disk=disk, clean=True)
    assert (reopened_log.log_start_offset, reopened_log.local_log_start_offset) == (0, 4)
    reopened_log.update_config(TIERED)
    assert reopened_log.remote_log_enabled
    assert (reopened_log.log_start_offset, reopened_log.local_log_start_offset) == (0, 4)
    reopened_log.update_config(replace(compacted, remote_storage_enable=False))
    assert reopened_log.log_start_offset == 4
