"""Bugs of other brokers that must not occur here: the rows of the reliability table about the log.

Each test has the name of the report. Corrupt files are in test_recovery, power failures in test_crash_points.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.disks.crash_points import crash_points
from tests.support.logs.log_managers import (
    get_or_create_log,
    new_log_manager,
    remove_deleted_files,
    write_checkpoint,
)
from tests.support.logs.partition_logs import append, batch, end_marker, open_log, values_of
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.steps import run_steps
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.record_bounds import LOOKED_UP_BYTES_MAX
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL

SMALL = log_config(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)
EVENTS = TopicPartition("events", 0)


def replicate(leader: PartitionLog, follower: PartitionLog) -> None:
    """Fetch once from the end of the follower's log."""
    records = leader.read(follower.log_end_offset, 1 << 20).records
    if records is not None:
        follower.append_as_follower(records.read(), NOW_MS)


def truncate_by_epoch(follower: PartitionLog, leader: PartitionLog) -> None:
    """Truncate as a follower that starts to follow: query the end of its last epoch and truncate there."""
    while (epoch := follower.leader_epochs.latest_epoch) is not None:
        leader_epoch, end = leader.leader_epochs.end_offset_for(epoch, leader.log_end_offset)
        if leader_epoch == epoch:
            follower.truncate_to(min(end, follower.log_end_offset), below_high_watermark=True)
            return
        own_end = follower.leader_epochs.end_offset_for(leader_epoch, follower.log_end_offset).end_offset
        follower.truncate_to(max(min(end, own_end), 0), below_high_watermark=True)


def test_kip_101_a_follower_with_a_stale_high_watermark_keeps_acknowledged_records() -> None:
    leader, follower = open_log(CrashFileSystem()), open_log(CrashFileSystem())
    append(leader, "a", leader_epoch=0)
    append(leader, "acknowledged", leader_epoch=0)
    replicate(leader, follower)
    assert follower.high_watermark == 0, "it does not know yet that both are committed"
    truncate_by_epoch(follower, leader)
    assert values_of(follower) == ["a", "acknowledged"]


def test_kip_101_followers_do_not_diverge_after_power_failures_of_both() -> None:
    new_leader, old_leader = open_log(CrashFileSystem()), open_log(CrashFileSystem())
    append(old_leader, "a", leader_epoch=0)
    replicate(old_leader, new_leader)
    append(old_leader, "never replicated", leader_epoch=0)
    new_leader.epoch_file.note(1, new_leader.log_end_offset)
    append(new_leader, "b", leader_epoch=1)
    truncate_by_epoch(old_leader, new_leader)
    replicate(new_leader, old_leader)
    assert values_of(old_leader) == values_of(new_leader) == ["a", "b"]


def test_kip_279_consecutive_elections_leave_no_divergence() -> None:
    follower, leader = open_log(CrashFileSystem()), open_log(CrashFileSystem())
    for log in (follower, leader):
        append(log, "a", leader_epoch=0)
    follower.epoch_file.note(1, 1)
    append(follower, "only here", leader_epoch=1)
    leader.epoch_file.note(2, 1)
    append(leader, "b", leader_epoch=2)
    truncate_by_epoch(follower, leader)
    replicate(leader, follower)
    assert values_of(follower) == values_of(leader) == ["a", "b"]
    assert follower.leader_epochs.entries == leader.leader_epochs.entries


def test_kafka_12460_nothing_below_the_high_watermark_is_truncated() -> None:
    log = open_log(CrashFileSystem())
    append(log, "committed")
    with pytest.raises(KafkaError, match="high watermark is 1"):
        log.truncate_to(0)
    assert values_of(log) == ["committed"]


def test_kafka_15352_the_log_start_is_durable_before_any_segment_is_deleted() -> None:
    config = replace(SMALL, retention_bytes=400, file_delete_delay_ms=0)

    def prepare(disk: CrashFileSystem) -> None:
        manager = new_log_manager(disk, ["/data"])
        manager.start(NOW_MS)
        log = get_or_create_log(manager, EVENTS, UUID(int=1), config, NOW_MS)
        for index in range(12):
            append(log, f"{index:02}" + "x" * 50)
        log.flush(NOW_MS)
        write_checkpoint(manager, CheckpointKind.RECOVERY_POINT)
        write_checkpoint(manager, CheckpointKind.HIGH_WATERMARK)

    def retain(disk: CrashFileSystem, _: list[Any]) -> None:
        manager = new_log_manager(disk, ["/data"])
        manager.start(NOW_MS, lambda _: config)
        assert run_steps(manager.maintenance.apply_retention(NOW_MS)) > 1
        remove_deleted_files(manager, NOW_MS)

    for point in crash_points(prepare, retain, (*EVERY_SURVIVAL, 1, 2, 3, 4, 5)):
        manager = new_log_manager(point.disk, ["/data"])
        manager.start(NOW_MS, lambda _: config)
        log = manager.get(EVENTS)
        assert log is not None, point
        record_numbers = [int(value[:2]) for value in values_of(log)]
        assert record_numbers == list(range(log.log_start_offset, 12)), point


def test_fsyncgate_a_failed_fsync_is_not_repeated() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, "a")
    disk.fail_next_fsync(".log")
    with pytest.raises(StorageFailure):
        log.flush(NOW_MS)
    syncs = [text for text in disk.operations if text.startswith("fsync")]
    for _ in range(3):
        with pytest.raises(KafkaError):
            append(log, "b")
    log.close(clean=True, now_ms=NOW_MS)
    assert [text for text in disk.operations if text.startswith("fsync")] == syncs
    assert log.durability.recovery_point == 0


def test_redpanda_3038_the_last_five_batches_of_a_producer_are_recognized() -> None:
    log = open_log(CrashFileSystem())
    batches = [batch(["x"], producer_id=1, producer_epoch=0, base_sequence=index) for index in range(6)]
    sent = [bytes(data) for data in batches]
    for data in batches:
        log.append_as_leader(data, 0, NOW_MS)
    for index in range(1, 6):
        info = log.append_as_leader(bytearray(sent[index]), 0, NOW_MS)
        assert (info.is_duplicate, info.first_offset) == (True, index)
        assert info.log_append_time == NOW_MS, "as Kafka's, whatever the topic's timestamps are"
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(bytearray(sent[0]), 0, NOW_MS)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 6


def test_redpanda_3036_read_committed_ends_before_the_first_open_transaction() -> None:
    log = open_log(CrashFileSystem())
    append(log, "a")
    append(log, "open", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, "b")
    records = log.read(0, 1 << 20, upper_bound=log.last_stable_offset).records
    assert records is not None
    assert [header.base_offset for _, header in iterate_headers(records.read())] == [0]
    log.append_as_leader(end_marker(1, is_abort=True), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.advance_high_watermark(log.log_end_offset)
    result = log.read(0, 1 << 20, upper_bound=log.last_stable_offset, with_aborted_transactions=True)
    assert result.aborted_transactions is not None
    assert [aborted.first_offset for aborted in result.aborted_transactions] == [1]


def test_kafka_7104_a_log_start_that_moves_between_read_and_response_is_handled() -> None:
    disk = CrashFileSystem()
    log = open_log(disk, replace(SMALL, file_delete_delay_ms=0))
    for index in range(12):
        append(log, f"{index:02}" + "x" * 50)
    records = log.read(0, 1 << 20).records
    assert records is not None
    log.advance_log_start_offset(12)
    log.retention.apply(NOW_MS)
    log.retention.delete_expired_files(NOW_MS)
    assert next(iterate_headers(records.read()))[1].base_offset == 0
    with pytest.raises(KafkaError) as caught:
        log.read(0, 100)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.ZSTD, Compression.LZ4])
def test_a_decompression_bomb_is_stored_compressed_and_refused_where_it_must_be_decompressed(
    codec: Compression,
) -> None:
    bomb = batch(["x" * (LOOKED_UP_BYTES_MAX + 1)], compression=codec)
    log = open_log(CrashFileSystem())
    log.append_as_leader(bytearray(batch(["before"], timestamps=NOW_MS - 9)), 0, NOW_MS)
    log.append_as_leader(bytearray(bomb), 0, NOW_MS)
    # A timestamp lookup finds the batch as a whole without decompressing it.
    place = run_steps(log.timestamps.first_record_from(NOW_MS))
    assert place is not None and place.offset == 1
    compacted = open_log(CrashFileSystem(), log_config(cleanup_policy=("compact",)))
    with pytest.raises(KafkaError) as caught:
        compacted.append_as_leader(bytearray(bomb), 0, NOW_MS)
    assert caught.value.code is ErrorCode.INVALID_RECORD
