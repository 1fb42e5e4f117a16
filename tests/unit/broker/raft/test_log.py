"""The metadata log: ends of epochs, truncation, snapshots, retention, crashes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import metadata_log_config
from tests.support.metadata.stores import DIRECTORY
from tidelog.broker.raft.log import MetadataLog, MetadataLogConfig
from tidelog.broker.raft.snapshot_format import (
    SnapshotHead,
    last_contained_log_timestamp,
    read_snapshot,
    snapshot_batches,
)
from tidelog.broker.raft.snapshots import snapshot_name
from tidelog.cluster.metadata_log_codec import encode_record
from tidelog.cluster.quorum.log import EpochEnd, SnapshotId
from tidelog.cluster.quorum.topic import METADATA_TOPIC_ID
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.storage.disk.checkpoints import PartitionMetadataFile
from tidelog.storage.disk.errors import CorruptFile
from tidelog.testing.simulation.crash_file_system import CrashFileSystem, SimulatedCrash
from tidelog.testing.simulation.crash_images import Survival

PARTITION = f"{DIRECTORY}/__cluster_metadata-0"
SMALL = metadata_log_config(
    metadata_log_segment_bytes=1024, metadata_max_retention_bytes=1, metadata_max_retention_ms=-1
)


def open_log(
    disk: CrashFileSystem, config: MetadataLogConfig | None = None, clock: ManualClock | None = None
) -> MetadataLog:
    return MetadataLog.open(disk, DIRECTORY, config or metadata_log_config(), clock or ManualClock())


def batch(offset: int, epoch: int, count: int = 1) -> bytearray:
    builder = BatchBuilder(base_offset=offset, leader_epoch=epoch)
    for index in range(count):
        record = ConfigRecord(resource_type=4, resource_name="", name="k", value=str(offset + index))
        builder.append(1_000 + offset, None, encode_record(record))
    return builder.build()


def append(log: MetadataLog, *epochs: int) -> None:
    """Return one batch of one record for each value."""
    for epoch in epochs:
        log.append(batch(log.end_offset, epoch), epoch)


def flush(log: MetadataLog) -> None:
    plan = log.flush_plan()
    plan.run()
    log.on_flushed(plan)


def snapshot_data(epoch: int, values: Iterable[str] = ("a", "b")) -> bytes:
    records = [ConfigRecord(resource_type=4, resource_name="", name=each, value=each) for each in values]
    return b"".join(snapshot_batches(records, SnapshotHead(77), epoch=epoch, now_ms=99))


def write_snapshot(log: MetadataLog, snapshot_id: SnapshotId, timestamp: int = 77) -> None:
    batches = snapshot_batches((), SnapshotHead(timestamp), epoch=snapshot_id.epoch, now_ms=99)
    log.snapshots.write(snapshot_id, batches)
    log.snapshots.add(snapshot_id)


def offsets(data: bytes) -> list[int]:
    return [header.base_offset for _, header in iterate_headers(data)]


def test_a_new_log_is_empty_and_has_kafkas_files() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    assert (log.start_offset, log.start_epoch, log.end_offset, log.last_epoch) == (0, 0, 0, 0)
    assert log.high_watermark == 0
    assert log.latest_snapshot() is None
    assert PartitionMetadataFile(disk, PARTITION).read() == METADATA_TOPIC_ID


def test_complete_batches_are_read() -> None:
    log = open_log(CrashFileSystem())
    first, second = batch(0, 1, 3), batch(3, 2, 2)
    log.append(bytes(first + second), 2)
    assert log.read(0, 1 << 20) == bytes(first + second)
    assert log.read(4, 1) == bytes(second)
    assert log.read(5, 1 << 20) == b""
    assert log.read(0, 1 << 20, 3) == bytes(first)


def test_an_append_that_is_larger_than_a_segment_is_divided_into_batches() -> None:
    log = open_log(CrashFileSystem(), SMALL)
    batches = [batch(index * 5, 1, 5) for index in range(10)]
    log.append(b"".join(batches), 1)
    assert log.end_offset == 50


def test_an_epoch_ends_at_the_start_of_the_next() -> None:
    log = open_log(CrashFileSystem())
    append(log, 1, 1, 4, 4, 4, 7)
    ends = {epoch: log.end_offset_for_epoch(epoch) for epoch in range(9)}
    assert ends == {
        0: EpochEnd(0, 0),
        1: EpochEnd(1, 2),
        2: EpochEnd(1, 2),
        3: EpochEnd(1, 2),
        4: EpochEnd(4, 5),
        5: EpochEnd(4, 5),
        6: EpochEnd(4, 5),
        7: EpochEnd(7, 6),
        8: EpochEnd(7, 6),
    }


def test_epochs_are_restored_after_truncation_and_restart() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, 1, 2, 2, 3)
    log.truncate_to(2)
    assert (log.end_offset, log.last_epoch) == (2, 2)
    append(log, 5)
    log.close(clean=True)
    log = open_log(disk)
    assert (log.end_offset, log.last_epoch, log.high_watermark) == (3, 5, 0)
    assert log.end_offset_for_epoch(4) == EpochEnd(2, 2)


def test_committed_records_are_never_truncated() -> None:
    log = open_log(CrashFileSystem())
    append(log, 1, 1, 1)
    log.advance_high_watermark(2)
    with pytest.raises(AssertionError, match="high watermark"):
        log.truncate_to(1)
    log.truncate_to(2)
    assert log.end_offset == 2


def test_batches_that_do_not_continue_the_log_are_a_bug() -> None:
    log = open_log(CrashFileSystem())
    with pytest.raises(AssertionError):
        log.append(batch(1, 1), 1)


def test_a_fetched_snapshot_resets_the_log() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, 1, 1)
    data, snapshot_id = snapshot_data(4), SnapshotId(100, 4)
    log.append_snapshot_chunk(snapshot_id, 0, data[:9])
    log.append_snapshot_chunk(snapshot_id, 0, data[:10])
    log.append_snapshot_chunk(snapshot_id, 10, data[10:])
    assert log.latest_snapshot() is None
    log.finish_snapshot(snapshot_id)
    assert (log.start_offset, log.start_epoch, log.end_offset, log.last_epoch) == (100, 4, 100, 4)
    assert log.high_watermark == 100
    assert log.read_snapshot(snapshot_id, 0, 1 << 20) == (data, len(data))
    assert log.read_snapshot(snapshot_id, 5, 3) == (data[5:8], len(data))
    assert log.read_snapshot(snapshot_id, len(data), 3) == (b"", len(data))
    assert log.read_snapshot(SnapshotId(100, 5), 0, 3) is None
    assert log.end_offset_for_epoch(3) == EpochEnd(4, 100)
    assert log.end_offset_for_epoch(9) == EpochEnd(4, 100)
    append(log, 6, 6)
    assert log.end_offset_for_epoch(4) == EpochEnd(4, 100)
    assert log.end_offset_for_epoch(6) == EpochEnd(6, 102)
    log.close(clean=True)
    log = open_log(disk)
    assert (log.start_offset, log.start_epoch, log.end_offset, log.last_epoch) == (100, 4, 102, 6)
    assert log.high_watermark == 100


@pytest.mark.parametrize("at", [17, 30, 80, 200, -30, "half", "no footer"])
def test_a_corrupt_fetched_snapshot_is_deleted_and_fetched_again(at: int | str) -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, 1, 1)
    whole, snapshot_id = snapshot_data(4, map(str, range(9))), SnapshotId(100, 4)
    batches = [position for position, _ in iterate_headers(whole)]
    assert len(batches) == 3
    if isinstance(at, int):
        damaged = bytearray(whole)
        damaged[at] ^= 1
    else:
        damaged = bytearray(whole[: len(whole) // 2 if at == "half" else batches[-1]])
    log.append_snapshot_chunk(snapshot_id, 0, bytes(damaged))
    assert not log.finish_snapshot(snapshot_id)
    assert (log.start_offset, log.end_offset, log.latest_snapshot()) == (0, 2, None)
    log.append_snapshot_chunk(snapshot_id, 0, whole)
    assert log.finish_snapshot(snapshot_id)
    assert (log.start_offset, log.end_offset, log.latest_snapshot()) == (100, 100, snapshot_id)


def test_a_partly_fetched_snapshot_is_deleted_after_a_crash() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    log.append_snapshot_chunk(SnapshotId(9, 1), 0, b"half")
    kafkas = f"{PARTITION}/{9:020d}-{1:010d}-123456.checkpoint.part"
    disk.open(kafkas, create=True)
    log = open_log(disk)
    assert log.latest_snapshot() is None
    assert not [name for name in disk.listdir(PARTITION) if name.endswith(".part")]


def test_a_snapshot_is_deleted_when_the_disk_is_full() -> None:
    """Otherwise each attempt would leave a file with another name on the full disk."""
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, 1)
    disk.free_bytes = 100
    with pytest.raises(OSError, match="No space"):
        log.snapshots.write(SnapshotId(1, 1), [snapshot_data(1, ["a" * 1000])])
    assert disk.free_bytes == 100
    assert not [name for name in disk.listdir(PARTITION) if name.endswith(".part")]


def test_a_full_disk_deletes_the_fetched_chunks_of_a_snapshot() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    data = snapshot_data(1)
    disk.free_bytes = 20
    log.append_snapshot_chunk(SnapshotId(9, 1), 0, data[:15])
    with pytest.raises(KafkaError, match="No space"):
        log.append_snapshot_chunk(SnapshotId(9, 1), 15, data[15:])
    assert disk.free_bytes == 20
    assert log.failure is None
    disk.free_bytes = None
    log.append_snapshot_chunk(SnapshotId(9, 1), 0, data)
    assert log.finish_snapshot(SnapshotId(9, 1))


def test_a_snapshot_replaced_during_its_fetch_leaves_no_file() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    data = snapshot_data(1)
    log.append_snapshot_chunk(SnapshotId(5, 1), 0, data[:9])
    log.append_snapshot_chunk(SnapshotId(9, 1), 0, data)
    assert [name for name in disk.listdir(PARTITION) if name.endswith(".part")] == [
        f"{9:020d}-{1:010d}.checkpoint.part"
    ]
    assert log.finish_snapshot(SnapshotId(9, 1))
    log.append_snapshot_chunk(SnapshotId(12, 1), 0, data)
    assert log.latest_snapshot() == SnapshotId(9, 1)


@pytest.mark.parametrize("survival", [*Survival, 1, 2, 3])
def test_a_crash_during_loading_of_a_snapshot_leaves_the_old_or_the_new_log(
    survival: Survival | int,
) -> None:
    data, snapshot_id, count = snapshot_data(4), SnapshotId(100, 4), 0
    while True:
        disk = CrashFileSystem()
        log = open_log(disk, SMALL)
        append(log, *[1] * 30)
        log.append_snapshot_chunk(snapshot_id, 0, data)
        flush(log)
        disk.sync_all()
        count += 1
        disk.crash_at = count
        try:
            log.finish_snapshot(snapshot_id)
        except SimulatedCrash:
            recovered = open_log(disk.crash(survival), SMALL)
            if recovered.start_offset == 100:
                assert (recovered.end_offset, recovered.last_epoch, recovered.latest_snapshot()) == (
                    100,
                    4,
                    snapshot_id,
                )
            else:
                assert (recovered.start_offset, recovered.end_offset, recovered.latest_snapshot()) == (
                    0,
                    30,
                    None,
                )
            continue
        break
    assert count > 5


def test_a_longer_diverging_log_is_replaced_by_the_snapshot() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, *[1] * 10)
    flush(log)
    log.snapshots.write(SnapshotId(5, 3), [snapshot_data(3)])
    log = open_log(disk)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (5, 5, 3)


def test_snapshots_do_not_move_the_log_start() -> None:
    disk = CrashFileSystem()
    log = open_log(disk)
    append(log, 1, 1, 2)
    log.advance_high_watermark(3)
    write_snapshot(log, SnapshotId(3, 2))
    assert log.latest_snapshot() == SnapshotId(3, 2)
    assert (log.start_offset, log.timestamp_before(3)) == (0, 1_002)
    log.close(clean=True)
    log = open_log(disk)
    assert (log.start_offset, log.high_watermark, log.end_offset) == (0, 3, 3)


def test_cleaning_keeps_the_newest_snapshot_and_the_log_from_its_end() -> None:
    disk = CrashFileSystem()
    log = open_log(disk, SMALL)
    append(log, *[1] * 20, *[2] * 20)
    flush(log)
    log.advance_high_watermark(40)
    for snapshot_id in (SnapshotId(10, 1), SnapshotId(20, 1), SnapshotId(30, 2)):
        write_snapshot(log, snapshot_id)
    assert log.clean()
    assert log.snapshots.ids == [SnapshotId(30, 2)]
    assert (log.start_offset, log.start_epoch) == (30, 2)
    assert offsets(log.read(30, 1 << 20))[0] == 30
    assert not log.clean()
    log.close(clean=True)
    log = open_log(disk, SMALL)
    assert (log.start_offset, log.start_epoch, log.end_offset) == (30, 2, 40)


def test_snapshots_older_than_the_retention_are_deleted() -> None:
    clock = ManualClock(1_000)
    config = metadata_log_config(
        metadata_log_segment_bytes=1024, metadata_max_retention_bytes=-1, metadata_max_retention_ms=100
    )
    log = open_log(CrashFileSystem(), config, clock)
    append(log, *[1] * 30)
    log.advance_high_watermark(30)
    write_snapshot(log, SnapshotId(10, 1), timestamp=890)
    write_snapshot(log, SnapshotId(20, 1), timestamp=950)
    write_snapshot(log, SnapshotId(30, 1), timestamp=10)
    assert log.clean()
    assert log.snapshots.ids == [SnapshotId(20, 1), SnapshotId(30, 1)]
    clock.now_ms += 100
    assert log.clean()
    assert log.snapshots.ids == [SnapshotId(30, 1)]


@pytest.mark.parametrize("survival", [*Survival, 1, 2, 3])
def test_a_crash_during_cleaning_leaves_a_log_that_starts_at_a_snapshot(survival: Survival | int) -> None:
    count = 0
    while True:
        disk = CrashFileSystem()
        log = open_log(disk, SMALL)
        append(log, *[1] * 40)
        log.advance_high_watermark(40)
        for end_offset in (10, 20, 30):
            write_snapshot(log, SnapshotId(end_offset, 1))
        flush(log)
        disk.sync_all()
        count += 1
        disk.crash_at = count
        try:
            log.clean()
        except SimulatedCrash:
            recovered = open_log(disk.crash(survival), SMALL)
            assert recovered.end_offset == 40
            assert recovered.latest_snapshot() == SnapshotId(30, 1)
            assert recovered.start_offset in (0, 10, 20, 30)
            assert offsets(recovered.read(recovered.start_offset, 1 << 20))[0] <= recovered.start_offset
            continue
        break
    assert count > 3


def test_a_log_without_its_start_and_without_a_snapshot_is_refused() -> None:
    disk = CrashFileSystem()
    log = open_log(disk, SMALL)
    append(log, *[1] * 40)
    log.advance_high_watermark(40)
    write_snapshot(log, SnapshotId(10, 1))
    write_snapshot(log, SnapshotId(30, 1))
    log.clean()
    log.close(clean=True)
    disk.unlink(log.snapshots.path(SnapshotId(30, 1)))
    with pytest.raises(CorruptFile, match="no snapshot contains the records before it"):
        open_log(disk, SMALL)


def test_a_snapshot_contains_the_time_of_its_last_batch() -> None:
    data = snapshot_data(3)
    assert last_contained_log_timestamp(data) == 77
    snapshot = read_snapshot("x", data)
    assert [len(records) for records in snapshot.batches] == [2]
    assert {header.partition_leader_epoch for _, header in iterate_headers(data)} == {3}
    assert offsets(data) == [0, 1, 3]


@pytest.mark.parametrize("cut", [1, 60, 100])
def test_a_snapshot_without_footer_is_corrupt(cut: int) -> None:
    data = snapshot_data(3)
    with pytest.raises(CorruptFile):
        read_snapshot("x", data[:-cut])
    footer = list(iterate_headers(data))[-1][0]
    with pytest.raises(CorruptFile, match="footer"):
        read_snapshot("x", data[:footer])


def test_a_flipped_bit_in_a_snapshot_is_detected() -> None:
    data = bytearray(snapshot_data(3))
    data[150] ^= 4
    with pytest.raises(CorruptFile, match="checksum"):
        read_snapshot("x", bytes(data))


def test_file_names_equal_kafkas() -> None:
    name = "00000000000000000123-0000000007.checkpoint"
    assert snapshot_name(SnapshotId(123, 7)) == name
