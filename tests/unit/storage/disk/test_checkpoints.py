"""Kafka's text files: equal bytes, corruption reported by file and line, complete after any crash."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.disks.crash_points import crash_points
from tests.support.paths import GOLDEN_FILES
from tidelog.protocol.ids import TopicPartition, uuid_from_text
from tidelog.storage.disk.checkpoints import (
    CleanShutdownMarker,
    LeaderEpochCheckpoint,
    OffsetCheckpoint,
    PartitionMetadataFile,
)
from tidelog.storage.disk.errors import CorruptCheckpoint
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.testing.simulation.crash_file_system import CrashFileSystem
from tidelog.testing.simulation.crash_images import EVERY_SURVIVAL, Survival

GOLDEN = GOLDEN_FILES / "storage"
KAFKAS_OFFSETS = {
    TopicPartition("orders", 0): 0,
    TopicPartition("orders", 11): 123456789012,
    TopicPartition("a.b_c-d", 3): 2**63 - 1,
}
KAFKAS_EPOCHS = [EpochEntry(0, 0), EpochEntry(3, 17), EpochEntry(2**31 - 1, 99999999999)]
KAFKAS_TOPIC_ID = uuid_from_text("BDb2KMvgTSWG-9TKyQAbDA")


@pytest.fixture
def disk() -> CrashFileSystem:
    disk = CrashFileSystem()
    disk.makedirs("/d")
    return disk


def put(disk: CrashFileSystem, path: str, data: bytes) -> None:
    disk.open(path, create=True).append(data)


def test_an_offset_checkpoint_equals_kafkas_bytes(disk: CrashFileSystem) -> None:
    checkpoint = OffsetCheckpoint(disk, "/d/recovery-point-offset-checkpoint")
    checkpoint.write(KAFKAS_OFFSETS)
    golden = (GOLDEN / "recovery-point-offset-checkpoint").read_bytes()
    assert disk.read(checkpoint.path) == golden
    assert checkpoint.read() == KAFKAS_OFFSETS


def test_an_epoch_checkpoint_equals_kafkas_bytes(disk: CrashFileSystem) -> None:
    checkpoint = LeaderEpochCheckpoint(disk, "/d/leader-epoch-checkpoint")
    checkpoint.write(KAFKAS_EPOCHS)
    assert disk.read(checkpoint.path) == (GOLDEN / "leader-epoch-checkpoint").read_bytes()
    assert checkpoint.read() == KAFKAS_EPOCHS


def test_partition_metadata_equals_kafkas_bytes(disk: CrashFileSystem) -> None:
    file = PartitionMetadataFile(disk, "/d")
    assert not file.exists()
    file.write(KAFKAS_TOPIC_ID)
    assert disk.read("/d/partition.metadata") == (GOLDEN / "partition.metadata").read_bytes()
    assert (file.exists(), file.read()) == (True, KAFKAS_TOPIC_ID)


def test_the_clean_shutdown_file_equals_kafkas_bytes(disk: CrashFileSystem) -> None:
    marker = CleanShutdownMarker(disk, "/d")
    assert (marker.exists(), marker.read()) == (False, None)
    marker.write(42)
    assert disk.read("/d/.kafka_cleanshutdown") == (GOLDEN / "kafka_cleanshutdown").read_bytes()
    assert (marker.exists(), marker.read()) == (True, 42)
    marker.delete()
    marker.delete()
    assert not marker.exists()
    assert not disk.crash(Survival.LOSE_UNSYNCED).exists("/d/.kafka_cleanshutdown"), (
        "otherwise the node would trust unflushed files"
    )


@pytest.mark.parametrize("content", [b"", b"\xff", b"{", b"[]", b'{"version":0}', b'{"brokerEpoch":"x"}'])
def test_an_older_or_invalid_clean_shutdown_file_means_clean(disk: CrashFileSystem, content: bytes) -> None:
    put(disk, "/d/.kafka_cleanshutdown", content)
    assert (CleanShutdownMarker(disk, "/d").exists(), CleanShutdownMarker(disk, "/d").read()) == (True, None)


def test_missing_and_empty_checkpoints_have_no_entries(disk: CrashFileSystem) -> None:
    assert OffsetCheckpoint(disk, "/d/missing").read() == {}
    assert LeaderEpochCheckpoint(disk, "/d/missing").read() == []
    put(disk, "/d/empty", (GOLDEN / "empty-offset-checkpoint").read_bytes())
    assert OffsetCheckpoint(disk, "/d/empty").read() == {}


def test_windows_line_endings_and_repeated_blanks_are_read(disk: CrashFileSystem) -> None:
    put(disk, "/d/c", b"0\r\n1\r\norders \t 3  +17\r\n")
    assert OffsetCheckpoint(disk, "/d/c").read() == {TopicPartition("orders", 3): 17}


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (b"x\n0\n", 1, "'x' is not an integer"),
        (b"\0\0\0\0", 1, "is not an integer"),
        (b"1\n0\n", 1, "version 1 is unknown"),
        (b"0\n", 2, "number of entries is missing"),
        (b"0\nmany\n", 2, "'many'"),
        (b"0\n2\norders 0 5\n", 2, "announces 2 entries, the file has 1"),
        (b"0\n1\norders 0 5\norders 1 5\n", 2, "announces 1 entries, the file has 2"),
        (b"0\n1\norders 0\n", 3, "'orders 0' does not have 3 words"),
        (b"0\n1\n\n", 3, "'' does not have 3 words"),
        (b"0\n1\n orders 5\n", 3, "' orders 5' does not have 3 words"),
        (b"0\n2\norders 0 5\norders 1 5 6\n", 4, "does not have 3 words"),
        (b"0\n1\norders zero 5\n", 3, "'zero' is not an integer of 32 bits"),
        (b"0\n1\norders 2147483648 5\n", 3, "'2147483648' is not an integer of 32 bits"),
        (b"0\n1\norders 0 9223372036854775808\n", 3, "is not an integer of 64 bits"),
        (b"0\n1\norders 0 1_000\n", 3, "'1_000'"),
        (b"0\n1\norders 0 \xff\n", 3, "byte 0xff is not UTF-8"),
    ],
)
def test_a_corrupt_offset_checkpoint_is_reported_with_its_line(
    disk: CrashFileSystem, content: bytes, line: int, reason: str
) -> None:
    put(disk, "/d/c", content)
    with pytest.raises(CorruptCheckpoint) as damage:
        OffsetCheckpoint(disk, "/d/c").read()
    assert damage.value.path == "/d/c"
    assert f"line {line}: " in str(damage.value)
    assert reason in str(damage.value)


@pytest.mark.parametrize(
    "content", [b"0\n1\n-1 5\n", b"0\n1\n1 -5\n", b"0\n1\n1 2 3\n", b"0\n1\n2147483648 3\n"]
)
def test_a_corrupt_epoch_checkpoint_is_reported_with_its_line(disk: CrashFileSystem, content: bytes) -> None:
    put(disk, "/d/c", content)
    with pytest.raises(CorruptCheckpoint, match="/d/c: line 3"):
        LeaderEpochCheckpoint(disk, "/d/c").read()


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", 1),
        (b"version: -1\ntopic_id: BDb2KMvgTSWG-9TKyQAbDA", 1),
        (b"version:0\ntopic_id: BDb2KMvgTSWG-9TKyQAbDA", 1),
        (b"version: 0", 2),
        (b"version: 0\ntopic_id: BDb2KMvgTSWG", 2),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2),
        (b"version: 0\ntopic_id: ????????????????????==", 2),
    ],
)
def test_corrupt_partition_metadata_is_reported_with_its_line(
    disk: CrashFileSystem, content: bytes, line: int
) -> None:
    put(disk, "/d/partition.metadata", content)
    with pytest.raises(CorruptCheckpoint, match=f"/d/partition.metadata: line {line}"):
        PartitionMetadataFile(disk, "/d").read()


def test_the_zero_topic_id_is_never_written(disk: CrashFileSystem) -> None:
    with pytest.raises(AssertionError):
        PartitionMetadataFile(disk, "/d").write(UUID(int=0))


@settings(max_examples=200, deadline=None)
@given(content=st.one_of(st.binary(max_size=60), st.text(alphabet="01 \n-+ax", max_size=30).map(str.encode)))
def test_random_bytes_are_read_or_refused_with_the_file_name(content: bytes) -> None:
    disk = CrashFileSystem()
    for name in ("/c", "/partition.metadata"):
        put(disk, name, content)
    readers: list[Callable[[], object]] = [
        OffsetCheckpoint(disk, "/c").read,
        LeaderEpochCheckpoint(disk, "/c").read,
        PartitionMetadataFile(disk, "").read,
    ]
    for read in readers:
        try:
            read()
        except CorruptCheckpoint as damage:
            assert damage.path in ("/c", "/partition.metadata")


@settings(max_examples=100, deadline=None)
@given(
    offsets=st.dictionaries(
        st.builds(TopicPartition, st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True), st.integers(0, 99)),
        st.integers(0, 2**63 - 1),
        max_size=20,
    )
)
def test_checkpoints_round_trip(offsets: dict[TopicPartition, int]) -> None:
    disk = CrashFileSystem()
    OffsetCheckpoint(disk, "/c").write(offsets)
    assert OffsetCheckpoint(disk, "/c").read() == offsets


def offsets_step(disk: CrashFileSystem, version: int) -> object:
    checkpoint = OffsetCheckpoint(disk, "/d/recovery-point-offset-checkpoint")
    if version:
        checkpoint.write({TopicPartition("t", part): version * 1000 for part in range(version)})
    return checkpoint.read()


def metadata_step(disk: CrashFileSystem, version: int) -> object:
    file = PartitionMetadataFile(disk, "/d")
    if version:
        file.write(UUID(int=version))
    return file.read() if file.exists() else None


def marker_step(disk: CrashFileSystem, version: int) -> object:
    marker = CleanShutdownMarker(disk, "/d")
    if version == 2:
        marker.delete()
    elif version:
        marker.write(version)
    return (marker.exists(), marker.read())


def epochs_step(disk: CrashFileSystem, version: int) -> object:
    checkpoint = LeaderEpochCheckpoint(disk, "/d/leader-epoch-checkpoint")
    if version:
        checkpoint.write([EpochEntry(epoch, epoch * 10) for epoch in range(version)])
    return checkpoint.read()


def crash_everywhere(step: Callable[[CrashFileSystem, int], object]) -> int:
    """Write versions 1, 2, 3 with a crash at every operation; the last or the next one is read afterwards.

    `step(disk, version)` writes `version` (0: nothing) and returns the version that is read.
    """
    expected: list[object] = []
    whole = CrashFileSystem()
    whole.makedirs("/d")
    for version in range(4):
        expected.append(step(whole, version))

    def workload(disk: CrashFileSystem, progress: list[Any]) -> None:
        for version in (2, 3):
            step(disk, version)
            progress.append(version)

    def prepare(disk: CrashFileSystem) -> None:
        disk.makedirs("/d")
        step(disk, 1)

    count = 0
    for point in crash_points(prepare, workload, (*EVERY_SURVIVAL, *range(20))):
        acknowledged = 1 + len(point.progress)
        assert step(point.disk, 0) in expected[acknowledged : acknowledged + 2], str(point)
        count += 1
    return count


@pytest.mark.parametrize("step", [offsets_step, metadata_step, marker_step])
def test_after_a_crash_at_any_operation_the_old_or_new_content_is_read(
    step: Callable[[CrashFileSystem, int], object],
) -> None:
    assert crash_everywhere(step) > 150


def test_kafka_16541_the_leader_epoch_checkpoint_is_complete_after_a_power_failure() -> None:
    assert crash_everywhere(epochs_step) > 250
