"""`tidelog log dump` on directories written by Tidelog and by Kafka, valid and corrupt."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli import tidelog, tidelog_failure, tidelog_output
from tests.support.clocks.manual_clock import NOW_MS
from tests.support.configs import log_config
from tests.support.logs.partition_logs import append, append_marker, batch, open_log
from tests.support.paths import GOLDEN_FILES
from tidelog.broker.coordinators.groups.records.coordinator_records import (
    encode_record as encode_group_record,
)
from tidelog.broker.coordinators.groups.records.coordinator_records import group_tombstone
from tidelog.broker.coordinators.groups.records.offset_records import (
    CommittedOffset,
    offset_commit,
    offset_tombstone,
)
from tidelog.cluster.metadata_log_codec import encode_record as encode_metadata_record
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.codec import encode
from tidelog.protocol.control_batch import ControlRecordType, control_batch
from tidelog.protocol.control_records import LeaderChangeMessage
from tidelog.protocol.coordinator_records.transaction_log import TransactionLogKey, TransactionLogValue
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.config.log_config import LogConfig
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.log.partition_log import PartitionLog

GOLDEN = GOLDEN_FILES / "storage"
FIRST = "00000000000000000000"


def log_in(directory: Path, config: LogConfig | None = None) -> PartitionLog:
    directory.mkdir(parents=True, exist_ok=True)
    return open_log(OsFileSystem(), config, directory=str(directory), clean=True)


def dump(*arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in tidelog_output("log", "dump", "--json", *arguments).splitlines()]


def of_kind(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["kind"] == kind]


def write(log: PartitionLog, *records: tuple[bytes | None, bytes | None]) -> None:
    builder = BatchBuilder()
    for key, value in records:
        builder.append(NOW_MS, key, value, [("h", b"1")])
    log.append_as_leader(builder.build(), 0, NOW_MS, origin=AppendOrigin.COORDINATOR)


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Write a partition of two segments, with an aborted transaction in the first one."""
    directory = tmp_path / "tides-0"
    log = log_in(directory, log_config(index_interval_bytes=0))
    for number in range(4):
        append(log, f"value {number}", timestamps=NOW_MS + number)
    append(log, "gone", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    append_marker(log, 5, is_abort=True)
    log.roll(NOW_MS)
    append(log, "second segment")
    log.close(clean=True)
    return directory


# --- output


def test_a_partition_directory_is_printed_batch_by_batch_and_entry_by_entry(partition: Path) -> None:
    lines = dump(str(partition))
    assert [line["base_offset"] for line in of_kind(lines, "batch")] == [0, 1, 2, 3, 4, 5, 6]
    first = of_kind(lines, "batch")[0]
    header = next(header for _, header in iterate_headers((partition / f"{FIRST}.log").read_bytes()))
    assert (first["position"], first["size_bytes"], first["records"]) == (0, header.size_bytes, 1)
    assert (first["crc"], first["compression"]) == (f"{header.crc:#010x}", "none")
    files = {Path(line["path"]).name: line for line in of_kind(lines, "file")}
    assert {line["state"] for line in files.values()} == {"ok"}
    assert files[f"{FIRST}.log"]["batches"] == 6
    assert files[f"{FIRST}.index"]["entries"] == 5
    assert files[f"{FIRST}.txnindex"]["entries"] == 1
    assert files["leader-epoch-checkpoint"]["entries"] == 1
    aborted = next(line for line in of_kind(lines, "entry") if "last_stable_offset" in line)
    assert (aborted["producer_id"], aborted["first_offset"], aborted["last_offset"]) == (5, 4, 5)
    assert Counter(line["kind"] for line in lines)["dumping"] == len(files)


def test_records_are_printed_with_keys_values_headers_and_markers(partition: Path) -> None:
    records = of_kind(dump("--records", str(partition / f"{FIRST}.log")), "record")
    assert records[0] == {
        "kind": "record",
        "offset": 0,
        "timestamp": NOW_MS,
        "key": "k",
        "value": "value 0",
        "headers": None,
    }
    assert records[5]["control"] == "abort"
    assert records[5]["message"] == {"coordinator_epoch": 0}


def test_text_output_has_pairs_of_name_and_value(partition: Path) -> None:
    lines = tidelog_output("log", "dump", "-r", str(partition / f"{FIRST}.log")).splitlines()
    assert lines[0] == f"dumping path={partition}/{FIRST}.log"
    assert lines[1].startswith("  batch position=0 base_offset=0 last_offset=0 records=1 ")
    assert lines[2] == f'    record offset=0 timestamp={NOW_MS} key=k value="value 0"'
    assert lines[-1].startswith(f"file path={partition}/{FIRST}.log state=ok type=log batches=6 records=6 ")


def test_quiet_prints_one_line_per_file(partition: Path) -> None:
    lines = tidelog_output("log", "dump", "--quiet", str(partition)).splitlines()
    assert all(line.startswith("file path=") for line in lines)
    assert len(lines) == len(list(partition.iterdir()))


def test_every_file_of_kafka_is_valid() -> None:
    lines = dump(str(GOLDEN / "events-0"))
    assert {line["state"] for line in of_kind(lines, "file")} == {"ok"}
    assert len(of_kind(lines, "file")) == len(list((GOLDEN / "events-0").iterdir()))
    assert of_kind(lines, "batch")


def test_a_log_directory_is_dumped_and_unknown_files_are_skipped(partition: Path, tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "recovery-point-offset-checkpoint", tmp_path)
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "lost+found").mkdir()
    (partition / "notes.txt").write_text("mine")
    names = [Path(line["path"]).name for line in of_kind(dump("-q", str(tmp_path)), "file")]
    file_names = {path.name for path in partition.iterdir()} - {"notes.txt"}
    assert set(names) == file_names | {"recovery-point-offset-checkpoint"}


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("producers.snapshot", {"producer_id": 1}),
        ("leader-epoch-checkpoint", {"leader_epoch": 0}),
        ("partition.metadata", {}),
        ("recovery-point-offset-checkpoint", {}),
    ],
)
def test_small_files_are_printed_entry_by_entry(tmp_path: Path, name: str, entry: dict[str, int]) -> None:
    target = tmp_path / (f"{0:020d}.snapshot" if name.endswith(".snapshot") else name)
    shutil.copy(GOLDEN / name, target)
    lines = dump(str(target))
    entries = of_kind(lines, "entry")
    assert entries
    assert of_kind(lines, "file")[0]["entries"] == len(entries)
    for field in entry:
        assert isinstance(entries[0][field], int)


def test_files_marked_deleted_are_dumped(partition: Path) -> None:
    for kind in (".log", ".index"):
        (partition / f"{FIRST}{kind}").rename(partition / f"{FIRST}{kind}.deleted")
    lines = dump("-q", str(partition / f"{FIRST}.log.deleted"), str(partition / f"{FIRST}.index.deleted"))
    assert [(line["state"], line["type"]) for line in lines] == [("ok", "log"), ("ok", "index")]


# --- internal topics


def test_committed_offsets_and_groups_are_decoded(tmp_path: Path) -> None:
    log = log_in(tmp_path / "__consumer_offsets-7")
    committed = CommittedOffset(offset=42, metadata="note", commit_wall_ms=NOW_MS)
    write(
        log,
        encode_group_record(offset_commit("harbour", "tides", 3, committed)),
        encode_group_record(offset_tombstone("harbour", "tides", 4)),
        encode_group_record(group_tombstone("harbour")),
        (b"\0\x09rest", b"x"),
    )
    log.close(clean=True)
    records = of_kind(dump("--decode", str(tmp_path / "__consumer_offsets-7")), "record")
    assert [line["type"] for line in records] == ["OffsetCommit", "OffsetCommit", "GroupMetadata", "unknown"]
    assert records[0]["key"] == {"group": "harbour", "topic": "tides", "partition": 3}
    assert (records[0]["value"]["offset"], records[0]["value"]["metadata"]) == (42, "note")
    assert records[1]["value"] is None
    assert records[3]["key_type"] == 9


def test_metadata_records_are_decoded(tmp_path: Path) -> None:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    message = LeaderChangeMessage(leader_id=1)
    leader_change = control_batch([(ControlRecordType.LEADER_CHANGE, message)], timestamp=NOW_MS)
    builder = BatchBuilder(base_offset=1)
    builder.append(NOW_MS, None, encode_metadata_record(TopicRecord(name="tides")))
    (directory / f"{FIRST}.log").write_bytes(leader_change + builder.build())
    first, second = of_kind(dump("-d", str(directory)), "record")
    assert (first["control"], first["message"]["leader_id"]) == ("leader_change", 1)
    assert (second["type"], second["value"]["name"]) == ("TopicRecord", "tides")


def test_a_copied_file_is_decoded_with_a_given_type(tmp_path: Path) -> None:
    log = log_in(tmp_path / "__transaction_state-1")
    key = b"\0\0" + encode(TransactionLogKey(transactional_id="payments"), 0)
    value = b"\0\1" + encode(TransactionLogValue(producer_id=9), 1)
    write(log, (key, value), (key, None))
    log.close(clean=True)
    copy = tmp_path / f"{FIRST}.log"
    shutil.copy(tmp_path / "__transaction_state-1" / f"{FIRST}.log", copy)
    assert of_kind(dump("--decode", str(copy)), "record") == []
    first, second = of_kind(dump("--as", "transactions", str(copy)), "record")
    assert first["key"] == {"transactional_id": "payments"}
    assert first["value"]["producer_id"] == 9
    assert second["value"] is None


def test_an_undecodable_record_of_an_internal_topic_is_corruption(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    log = log_in(directory)
    write(log, (b"\0", b"x"))
    log.close(clean=True)
    line = tidelog_failure("log", "dump", "--decode", str(directory))
    assert f"{directory}/{FIRST}.log: at byte 0: " in line


# --- corruption


def test_a_flipped_bit_is_reported_in_one_line_with_file_and_position(partition: Path) -> None:
    path = partition / f"{FIRST}.log"
    data = bytearray(path.read_bytes())
    position = [at for at, _ in iterate_headers(bytes(data))][2]
    data[position + 70] ^= 4
    path.write_bytes(data)
    line = tidelog_failure("log", "dump", str(partition))
    assert line.startswith(f"tidelog: {path}: at byte {position}: checksum ")
    output = tidelog("log", "dump", str(partition)).stdout
    assert f"file path={path} state=damaged type=log batches=2" in output


def test_a_corrupt_index_is_reported_when_it_or_its_segment_is_dumped(partition: Path) -> None:
    index = partition / f"{FIRST}.index"
    data = bytearray(index.read_bytes())
    data[8 + 7] += 1
    index.write_bytes(data)
    for path in (index, partition / f"{FIRST}.log", partition):
        line = tidelog_failure("log", "dump", "-q", str(path))
        assert line.startswith(f"tidelog: {index}: at byte 8: entry 1: ")
    states = {
        Path(line["path"]).name: line["state"]
        for line in map(
            json.loads, tidelog("log", "dump", "-q", "--json", str(partition)).stdout.splitlines()
        )
    }
    assert (states[f"{FIRST}.index"], states[f"{FIRST}.log"]) == ("damaged", "ok")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("00000000000000000000.index", b"\0" * 9, "not a multiple of the entry size 8"),
        ("00000000000000000000.timeindex", b"\0" * 13, "not a multiple of the entry size 12"),
        ("00000000000000000000.txnindex", b"\0" * 33, "not a multiple of the entry size 34"),
        ("00000000000000000009.snapshot", b"\0\1abcdefgh", "CRC"),
        ("leader-epoch-checkpoint", b"0\n2\n3 5\n2 9\n", "line 4: epoch 2"),
        ("leader-epoch-checkpoint", b"0\n1\nx y\n", "line 3: 'x'"),
        ("partition.metadata", b"version: 0\ntopic_id: ?", "line 2: '?'"),
        ("recovery-point-offset-checkpoint", b"0\n9\n", "line 2: it announces 9"),
        ("00000000000000000000.log", b"\0" * 10, "at byte 0: batch header"),
        ("00000000000000000007-0000000001.checkpoint", b"\0" * 70, "at byte 0: batch"),
    ],
)
def test_corruption_in_any_kind_of_file_is_one_line(
    tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    line = tidelog_failure("log", "dump", str(path))
    assert line.startswith(f"tidelog: {path}: ")
    assert words in line


def test_a_segment_with_offsets_of_the_next_is_corruption(tmp_path: Path) -> None:
    directory = tmp_path / "tides-0"
    directory.mkdir()
    (directory / f"{FIRST}.log").write_bytes(batch(["a", "b", "c"]))
    (directory / f"{2:020d}.log").write_bytes(batch(["c"], base_offset=2))
    assert "belongs to the next segment, from 2" in tidelog_failure("log", "dump", str(directory))


def test_unknown_paths_are_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"")
    assert "has no segments, indexes" in tidelog_failure("log", "dump", str(tmp_path), code=2)
    assert "does not exist" in tidelog_failure("log", "dump", str(tmp_path / "no"), code=2)
    assert "not the name of a segment" in tidelog_failure(
        "log", "dump", str(tmp_path / "picture.png"), code=2
    )


def test_dumped_files_are_unchanged(partition: Path) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in partition.iterdir()}
    tidelog_output("log", "dump", "-r", str(partition))
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in partition.iterdir()} == before
