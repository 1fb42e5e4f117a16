"""Inspection of segments: valid ones have no finding, corruption is reported with its position."""

from __future__ import annotations

import struct

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import DIRECTORY, append, append_marker, open_log
from tests.support.paths import GOLDEN_FILES
from tidelog.protocol.batch import BATCH_OVERHEAD, iterate_headers, read_header, write_header
from tidelog.protocol.compression import Compression
from tidelog.storage.disk.errors import CorruptCheckpoint, CorruptFile, CorruptIndex
from tidelog.storage.disk.log_files import LOG_SUFFIX, file_name
from tidelog.storage.disk.read_only_files import ReadOnlyFileSystem
from tidelog.storage.leader_epoch import EpochEntry
from tidelog.storage.segment.batch_scan import CorruptLog
from tidelog.storage.segment.index_checks import check_leader_epochs
from tidelog.storage.segment.inspection import SegmentInspection
from tidelog.testing.simulation.crash_file_system import CrashFileSystem

GOLDEN = GOLDEN_FILES / "storage" / "events-0"
SEGMENT = f"{DIRECTORY}/{file_name(0, LOG_SUFFIX)}"
OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


def inspect(disk: CrashFileSystem, path: str = SEGMENT, end_offset: int | None = None) -> list[CorruptFile]:
    inspection = SegmentInspection(disk, path, end_offset=end_offset)
    inspection.run()
    return inspection.defects


def only_defect(disk: CrashFileSystem) -> CorruptFile:
    defects = inspect(disk)
    assert len(defects) == 1, defects
    return defects[0]


def put(disk: CrashFileSystem, path: str, data: bytes) -> None:
    file = disk.open(path, create=True)
    file.truncate(0)
    file.append(data)
    file.close()


def index_path(kind: str) -> str:
    return f"{DIRECTORY}/{file_name(0, kind)}"


@pytest.fixture
def disk() -> CrashFileSystem:
    """Return a log of nine batches in one segment; its indexes have entries for all but the first."""
    fs = CrashFileSystem()
    log = open_log(fs, log_config(index_interval_bytes=0))
    for number in range(8):
        append(
            log,
            f"a{number}",
            f"b{number}",
            timestamps=NOW_MS + number,
            producer_id=7,
            producer_epoch=0,
            base_sequence=2 * number,
            is_transactional=True,
        )
    append_marker(log, 7, is_abort=True)
    log.close(clean=True)
    return fs


def test_a_written_log_has_no_finding_in_any_segment() -> None:
    fs = CrashFileSystem()
    log = open_log(fs, log_config(index_interval_bytes=0, segment_bytes=600))
    for number in range(40):
        codec = list(Compression)[number % 5]
        append(log, *(f"{number}-{i}" for i in range(5)), timestamps=NOW_MS + number % 7, compression=codec)
    bases = [segment.base_offset for segment in log.segments]
    log.close(clean=True)
    assert len(bases) > 3
    records = 0
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        inspection = SegmentInspection(fs, f"{DIRECTORY}/{file_name(base, LOG_SUFFIX)}", end_offset=following)
        inspection.run()
        assert inspection.defects == []
        records += inspection.record_count
    assert records == 200


def test_a_log_with_aborted_transactions_has_no_finding(disk: CrashFileSystem) -> None:
    assert disk.size(index_path(".txnindex")) == 34
    assert disk.size(index_path(".index")) == 8 * OFFSET_ENTRY.size
    assert inspect(disk) == []


def test_kafkas_log_has_no_finding() -> None:
    segments = sorted(GOLDEN.glob("*.log"))
    assert segments
    for path in segments:
        inspection = SegmentInspection(ReadOnlyFileSystem(), str(path))
        inspection.run()
        assert inspection.defects == []


def test_a_changed_byte_after_the_leader_epoch_is_found_at_its_batch(disk: CrashFileSystem) -> None:
    data = disk.read(SEGMENT)
    starts = [position for position, _ in iterate_headers(data)]
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        for at in range(start + 16, end, 3):
            put(disk, SEGMENT, data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
            defect = only_defect(disk)
            assert isinstance(defect, CorruptLog)
            assert (defect.path, defect.position) == (SEGMENT, start)


def test_a_truncated_tail_is_found_at_the_last_batch(disk: CrashFileSystem) -> None:
    data = disk.read(SEGMENT)
    last = max(position for position, _ in iterate_headers(data))
    for length in (last + 1, last + BATCH_OVERHEAD, len(data) - 1):
        put(disk, SEGMENT, data[:length])
        defect = only_defect(disk)
        assert isinstance(defect, CorruptLog)
        assert defect.position == last


def test_batches_before_the_corruption_are_returned(disk: CrashFileSystem) -> None:
    data = bytearray(disk.read(SEGMENT))
    positions = [position for position, _ in iterate_headers(data)]
    data[positions[3] + 40] ^= 1
    put(disk, SEGMENT, bytes(data))
    inspection = SegmentInspection(disk, SEGMENT)
    assert [batch.position for batch in inspection.batches()] == positions[:3]
    assert (inspection.batch_count, inspection.record_count, inspection.next_offset) == (3, 6, 6)


def rewrite(disk: CrashFileSystem, number: int, **changes: int) -> bytes:
    """Return the segment with a changed header of one batch and a valid checksum."""
    data = bytearray(disk.read(SEGMENT))
    position = [position for position, _ in iterate_headers(data)][number]
    write_header(data, position, read_header(data, position)._replace(**changes))
    return bytes(data)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"base_offset": 3}, "offset 3 where 4 or more is expected"),
        ({"partition_leader_epoch": -1}, "leader epoch -1 after 0"),
    ],
)
def test_decreasing_offsets_and_leader_epochs_are_corruption(
    disk: CrashFileSystem, changes: dict[str, int], words: str
) -> None:
    put(disk, SEGMENT, rewrite(disk, 2, **changes))
    assert words in str(only_defect(disk))


def test_an_offset_below_the_base_offset_is_corruption(disk: CrashFileSystem) -> None:
    path = f"{DIRECTORY}/{file_name(5, LOG_SUFFIX)}"
    put(disk, path, disk.read(SEGMENT))
    assert "offset 0 where 5 or more is expected" in str(inspect(disk, path)[0])


def test_an_offset_of_the_next_segment_is_corruption(disk: CrashFileSystem) -> None:
    assert inspect(disk, end_offset=17) == []
    assert "belongs to the next segment, from 15" in str(inspect(disk, end_offset=15)[0])


OFFSET_DAMAGES = {
    "a position inside a batch": (
        3,
        lambda offset, position: (offset, position + 1),
        "not where a batch starts",
    ),
    "a position after the end": (7, lambda offset, position: (offset, 1 << 30), "not where a batch starts"),
    "the start of a later batch": (0, lambda offset, position: (1, position), "leads past it"),
    "an offset that decreases": (4, lambda offset, position: (offset - 4, position), "does not rise above"),
    "an offset after the end": (7, lambda offset, position: (999, position), "above the segment's last"),
}


@pytest.mark.parametrize("name", OFFSET_DAMAGES)
def test_a_wrong_entry_of_an_offset_index_is_corruption(disk: CrashFileSystem, name: str) -> None:
    slot, change, words = OFFSET_DAMAGES[name]
    path = index_path(".index")
    entries = list(OFFSET_ENTRY.iter_unpack(disk.read(path)))
    entries[slot] = change(*entries[slot])
    put(disk, path, b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries))
    defect = only_defect(disk)
    assert isinstance(defect, CorruptIndex)
    assert defect.path == path
    assert words in str(defect)


TIME_DAMAGES = {
    "a later timestamp": (3, lambda at, offset: (at + 1, offset), "the largest timestamp up to there is"),
    "an earlier timestamp": (3, lambda at, offset: (at - 1, offset), "does not rise above"),
    "an offset that decreases": (4, lambda at, offset: (at, offset - 3), "does not rise above"),
    "an offset after the end": (7, lambda at, offset: (at, 400), "above the segment's last offset 16"),
}


@pytest.mark.parametrize("name", TIME_DAMAGES)
def test_a_wrong_entry_of_a_time_index_is_corruption(disk: CrashFileSystem, name: str) -> None:
    slot, change, words = TIME_DAMAGES[name]
    path = index_path(".timeindex")
    entries = list(TIME_ENTRY.iter_unpack(disk.read(path)))
    slot = min(slot, len(entries) - 1)
    entries[slot] = change(*entries[slot])
    put(disk, path, b"".join(TIME_ENTRY.pack(*entry) for entry in entries))
    defect = only_defect(disk)
    assert defect.path == path
    assert words in str(defect)


TXN_ENTRY = struct.Struct(">hqqqq")
TXN_DAMAGES = {
    "another producer": ((0, 8, 0, 16, 16), "offset 16 has no abort marker of producer 8"),
    "an offset of data": ((0, 7, 0, 3, 16), "offset 3 has no abort marker of producer 7"),
    "an end after the segment": ((0, 7, 0, 40, 16), "above the segment's last offset 16"),
    "a start after the end": ((0, 7, 17, 16, 16), "first offset 17 is above last offset 16"),
    "an unknown version": ((3, 7, 0, 16, 16), "version 3"),
}


@pytest.mark.parametrize("name", TXN_DAMAGES)
def test_a_wrong_entry_of_a_transaction_index_is_corruption(disk: CrashFileSystem, name: str) -> None:
    values, words = TXN_DAMAGES[name]
    put(disk, index_path(".txnindex"), TXN_ENTRY.pack(*values))
    defect = only_defect(disk)
    assert defect.path == index_path(".txnindex")
    assert words in str(defect)


def test_a_committed_transaction_in_the_transaction_index_is_corruption() -> None:
    fs = CrashFileSystem()
    log = open_log(fs)
    append(log, "a", producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_marker(log, 7, is_abort=False)
    log.close(clean=True)
    put(fs, index_path(".txnindex"), TXN_ENTRY.pack(0, 7, 0, 1, 2))
    assert "offset 1 has no abort marker of producer 7" in str(only_defect(fs))


@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex"])
def test_an_index_with_a_truncated_entry_is_corruption_and_other_entries_are_compared(
    disk: CrashFileSystem, kind: str
) -> None:
    put(disk, index_path(kind), disk.read(index_path(kind))[:-1])
    inspection = SegmentInspection(disk, SEGMENT)
    inspection.run()
    assert [defect.path for defect in inspection.defects] == [index_path(kind)]
    assert inspection.batch_count == 9


def test_one_finding_is_reported_per_file(disk: CrashFileSystem) -> None:
    put(disk, index_path(".index"), OFFSET_ENTRY.pack(3, 1) * 2)
    put(disk, index_path(".timeindex"), TIME_ENTRY.pack(5, 3) * 2)
    assert [defect.path for defect in inspect(disk)] == [index_path(".index"), index_path(".timeindex")]


def test_kafkas_preallocated_indexes_are_read_up_to_their_zeros(disk: CrashFileSystem) -> None:
    for kind in (".index", ".timeindex"):
        put(disk, index_path(kind), disk.read(index_path(kind)) + bytes(240))
    assert inspect(disk) == []


def test_leader_epochs_that_do_not_increase_are_reported_by_line() -> None:
    check_leader_epochs("/d/leader-epoch-checkpoint", [EpochEntry(0, 0), EpochEntry(2, 5)])
    for second in (EpochEntry(0, 5), EpochEntry(1, 0)):
        with pytest.raises(CorruptCheckpoint, match=r"line 5: epoch .* does not rise above epoch 0"):
            check_leader_epochs("/d/leader-epoch-checkpoint", [EpochEntry(-1, -1), EpochEntry(0, 0), second])
