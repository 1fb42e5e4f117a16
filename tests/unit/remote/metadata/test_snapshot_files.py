"""Snapshot files of remote segment metadata, also after a crash."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.support.disks.crash_points import crash_points
from tests.support.paths import GOLDEN_FILES
from tests.support.tier.segment_metadata import DELETED, DELETING, FINISHED, PARTITION, copy_start, step
from tests.support.waiting import TIMEOUT_S
from tidelog.protocol.errors import DecodeError
from tidelog.remote.metadata.cache import RemoteLogMetadataCache
from tidelog.remote.metadata.snapshot import decode_snapshot, encode_snapshot
from tidelog.remote.metadata.snapshot_files import (
    COMMITTED_OFFSETS_FILE,
    DIRECTORY,
    PlannedSnapshot,
    SnapshotFiles,
)
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata, TopicIdPartition
from tidelog.storage.disk.files import write_atomically
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

GOLDEN = GOLDEN_FILES / "remote_metadata"
IDLE = TopicIdPartition(UUID(int=0x1D7E), "idle", 1)
LEAVING = TopicIdPartition(UUID(int=0x7EA), "leaving", 2)
NUMBER = 7


def cache_with(count: int, partition: TopicIdPartition = PARTITION) -> RemoteLogMetadataCache:
    """Return a cache with `count` segments, of which the last one was deleted."""
    cache = RemoteLogMetadataCache(partition)
    for number in range(count):
        cache.add(copy_start(number, number * 10, number * 10 + 9, partition=partition))
        cache.update(step(number, FINISHED, partition=partition))
    for state in (DELETING, DELETED):
        cache.update(step(count - 1, state, partition=partition))
    return cache


def planned_snapshot(
    count: int, next_offset: int, partition: TopicIdPartition = PARTITION
) -> PlannedSnapshot:
    cache = cache_with(count, partition)
    return PlannedSnapshot(partition, NUMBER, next_offset, cache.frozen(), cache.highest_offsets())


def kafka_uuid(low: int) -> UUID:
    return UUID(int=0x0102030405060708 << 64 | low)


class SlowDisk(OsFileSystem):
    """A disk that syncs a directory of a partition only while all writers sync one."""

    def __init__(self, writers: int) -> None:
        super().__init__()
        self._together = threading.Barrier(writers)

    def fsync_dir(self, path: str) -> None:
        if not path.endswith(DIRECTORY):
            self._together.wait(TIMEOUT_S)
        super().fsync_dir(path)


def test_snapshots_of_many_partitions_are_written_concurrently_at_stop(
    tmp_path: Path,
) -> None:
    partitions = [TopicIdPartition(UUID(int=1), "many", number) for number in range(32)]
    files = SnapshotFiles(SlowDisk(8), str(tmp_path), writers=8)
    files.write(partitions, [planned_snapshot(3, 10, partition) for partition in partitions], {NUMBER: 10})
    again = SnapshotFiles(OsFileSystem(), str(tmp_path))
    loaded = [again.load(partition, NUMBER) for partition in partitions]
    assert all(each is not None and each.next_offset == 10 and len(each.cache) == 2 for each in loaded)


def test_a_snapshot_equals_kafkas_bytes() -> None:
    data = (GOLDEN / "remote_log_snapshot").read_bytes()
    snapshot = decode_snapshot(data, PARTITION)
    assert (snapshot.metadata_partition, snapshot.metadata_offset) == (17, 12345678901)
    first, second = snapshot.cache.frozen()
    assert (first.remote_log_segment_id.id, first.segment_leader_epochs) == (
        kafka_uuid(99),
        (EpochEntry(3, 100),),
    )
    assert (second.state, second.custom_metadata) == (FINISHED, b"\x07\x08")
    assert second.segment_leader_epochs == (EpochEntry(3, 200), EpochEntry(4, 250))
    assert encode_snapshot(snapshot.cache.frozen(), 17, 12345678901) == data


def test_committed_offsets_equal_kafkas_bytes() -> None:
    disk = CrashFileSystem()
    SnapshotFiles(disk, "/logs").write([], [], {0: 10, 7: 12345678901, 49: 0})
    written = disk.read(f"/logs/{DIRECTORY}/{COMMITTED_OFFSETS_FILE}")
    assert written == (GOLDEN / COMMITTED_OFFSETS_FILE).read_bytes()


@pytest.mark.parametrize("cut", range(0, 190, 7))
def test_a_truncated_snapshot_is_refused(cut: int) -> None:
    data = (GOLDEN / "remote_log_snapshot").read_bytes()
    with pytest.raises(DecodeError):
        decode_snapshot(data[:cut], PARTITION)
    with pytest.raises(DecodeError):
        decode_snapshot(data + data[:1], PARTITION)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_snapshot_with_a_segment_twice_is_refused(is_plain: bool) -> None:
    segment = replace(copy_start(1, 0, 9), custom_metadata=None if is_plain else b"x")
    with pytest.raises(DecodeError, match="contains the segment of entry 1 twice"):
        decode_snapshot(encode_snapshot([segment, segment], 0, 0), PARTITION)


def test_the_larger_of_snapshot_offset_and_committed_offset_applies() -> None:
    disk = CrashFileSystem()
    files = SnapshotFiles(disk, "/logs")
    files.write([PARTITION, IDLE], [planned_snapshot(3, 40), planned_snapshot(2, 20, IDLE)], {NUMBER: 30})
    for each in (files, SnapshotFiles(disk, "/logs")):
        snapshot, idle = each.load(PARTITION, NUMBER), each.load(IDLE, NUMBER)
        assert snapshot is not None
        assert idle is not None
        assert (snapshot.next_offset, idle.next_offset) == (40, 30)
        assert snapshot.cache.highest_offsets() == [(0, 29)], "not lowered by the deletion"
        assert each.load(PARTITION, NUMBER + 1) is None, "the number of metadata partitions has changed"


def test_after_a_crash_at_any_operation_no_missing_record_counts_as_read() -> None:
    """The first run writes offsets 0-39; the removed partition returns after the crash."""

    def prepare(disk: CrashFileSystem) -> None:
        snapshots = [planned_snapshot(3, 40), planned_snapshot(2, 40, IDLE), planned_snapshot(2, 40, LEAVING)]
        SnapshotFiles(disk, "/logs").write([PARTITION, IDLE, LEAVING], snapshots, {NUMBER: 40})

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        SnapshotFiles(disk, "/logs").write([PARTITION, IDLE], [planned_snapshot(6, 90)], {NUMBER: 90})
        progress.append("written")

    for point in crash_points(prepare, workload):
        files = SnapshotFiles(point.disk, "/logs")
        snapshot, idle, leaving = (files.load(one, NUMBER) for one in (PARTITION, IDLE, LEAVING))
        assert snapshot is not None, point
        assert (snapshot.next_offset, len(snapshot.cache)) in ((40, 2), (90, 5)), point
        assert snapshot.cache.highest_offsets()[0][1] in (29, 59), point
        assert snapshot.cache.highest_offsets()[0][1] >= 10 * len(snapshot.cache) + 9, point
        assert idle is not None, point
        assert idle.next_offset in (40, 90), point
        assert leaving is None or leaving.next_offset == 40, point
        if point.progress:
            assert (snapshot.next_offset, idle.next_offset, leaving) == (90, 90, None), point


def test_a_corrupt_file_is_ignored() -> None:
    disk = CrashFileSystem()
    SnapshotFiles(disk, "/logs").write([PARTITION], [planned_snapshot(3, 40)], {NUMBER: 90})
    for damaged in (
        b"",
        b"0\n",
        b"0\n1\n7 x\n",
        b"0\n2\n7 90\n",
        b"1\n1\n7 90\n",
        b"0\n1\n7 90",
        b"\xff\n1\n7 90\n",
    ):
        write_atomically(disk, f"/logs/{DIRECTORY}/{COMMITTED_OFFSETS_FILE}", damaged)
        snapshot = SnapshotFiles(disk, "/logs").load(PARTITION, NUMBER)
        assert snapshot is not None
        assert snapshot.next_offset == 40, damaged


def test_overlapping_segments_are_found_equally_after_a_restart() -> None:
    cache = RemoteLogMetadataCache(PARTITION)
    for number, start, end in ((0, 0, 100), (1, 50, 150), (2, 0, 60)):
        cache.add(copy_start(number, start, end))
    for number in (1, 0, 2):
        cache.update(step(number, FINISHED))
    again = decode_snapshot(encode_snapshot(cache.frozen(), 0, 0), PARTITION).cache

    def find_segments(one: RemoteLogMetadataCache) -> list[RemoteLogSegmentMetadata | None]:
        return [one.segment(0, offset) for offset in range(160)]

    assert find_segments(again) == find_segments(cache)
