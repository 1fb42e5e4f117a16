"""A partition directory of Apache Kafka: the same bytes are written, and it is opened unchanged."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.logs.log_checks import check_log
from tests.support.logs.partition_logs import TOPIC_PARTITION, all_records, open_log
from tests.support.paths import GOLDEN_FILES
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.steps import run_steps
from tidelog.storage.append_origin import AppendOrigin
from tidelog.storage.config.topic_configs import log_config_from
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.producers.producer_snapshot import decode_snapshot

GOLDEN = GOLDEN_FILES / "storage"
CONFIG = log_config_from({"internal.segment.bytes": "2500", "index.interval.bytes": "300"})
WRITTEN_MS = 1_795_000_000_000
ROLL = 9


def kafkas_appends() -> Iterator[tuple[int, int, bytes]]:
    """Return origin, leader epoch and batch of each append that Kafka performed."""
    data = (GOLDEN / "events-0.appends").read_bytes()
    position = 0
    while position < len(data):
        origin, epoch, size = struct.unpack_from(">bii", data, position)
        position += 9
        yield origin, epoch, data[position : position + size]
        position += size


def write_log(directory: str) -> PartitionLog:
    log = open_log(OsFileSystem(), CONFIG, directory=directory, now_ms=WRITTEN_MS, clean=True)
    for origin, epoch, data in kafkas_appends():
        if origin == ROLL:
            log.roll(WRITTEN_MS)
            continue
        try:
            log.append_as_leader(
                bytearray(data),
                epoch,
                WRITTEN_MS,
                origin=AppendOrigin.COORDINATOR if origin else AppendOrigin.CLIENT,
            )
        except KafkaError:
            continue  # Kafka refused the same appends; otherwise its files would differ.
        log.advance_high_watermark(log.log_end_offset)
    return log


def content(path: Path) -> object:
    """Return a file's bytes; entries of a snapshot are sorted, as Kafka writes them in hash order."""
    data = path.read_bytes()
    if path.suffix == ".snapshot":
        return sorted(map(repr, decode_snapshot(data, str(path))))
    return data


def test_the_same_appends_give_kafkas_files(tmp_path: Path) -> None:
    write_log(str(tmp_path)).close(clean=True, now_ms=WRITTEN_MS)
    names = sorted(path.name for path in (GOLDEN / "events-0").iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for name in names:
        assert content(tmp_path / name) == content(GOLDEN / "events-0" / name), name


@pytest.mark.parametrize("clean", [True, False])
def test_a_kafka_directory_is_opened_with_its_complete_state(tmp_path: Path, clean: bool) -> None:
    shutil.copytree(GOLDEN / "events-0", tmp_path / "events-0")
    log = open_log(
        OsFileSystem(), CONFIG, directory=str(tmp_path / "events-0"), now_ms=WRITTEN_MS, clean=clean
    )
    log.advance_high_watermark(log.log_end_offset)
    ours = write_log(str(tmp_path / "ours"))
    assert log.topic_partition == TOPIC_PARTITION
    assert (log.log_start_offset, log.log_end_offset) == (0, ours.log_end_offset)
    assert log.last_stable_offset == ours.last_stable_offset
    assert log.leader_epochs.entries == ours.leader_epochs.entries
    assert log.segments.base_offsets == ours.segments.base_offsets
    assert all_records(log) == all_records(ours)
    assert log.aborted_transactions(0, log.log_end_offset) == ours.aborted_transactions(0, log.log_end_offset)
    assert log.aborted_transactions(0, log.log_end_offset)
    assert run_steps(log.timestamps.newest_record()) == run_steps(ours.timestamps.newest_record())
    check_log(log)


def test_rebuilt_indexes_equal_kafkas(tmp_path: Path) -> None:
    directory = tmp_path / "events-0"
    shutil.copytree(GOLDEN / "events-0", directory)
    for path in directory.iterdir():
        if path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            path.unlink()
    open_log(OsFileSystem(), CONFIG, directory=str(directory), now_ms=WRITTEN_MS).close(
        clean=True, now_ms=NOW_MS
    )
    for path in (GOLDEN / "events-0").iterdir():
        if path.suffix != ".snapshot" or path.stem == "00000000000000000209":
            assert content(directory / path.name) == content(path), path.name
