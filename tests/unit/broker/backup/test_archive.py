"""The file format of backups: round trip, checksums, and damaged archives."""

from __future__ import annotations

import io
import json
import zipfile

import pytest

from tests.support.backup import BACKUP
from tidelog.broker.backup.archive import (
    decode_backup,
    encode_backup,
)
from tidelog.storage.disk.errors import CorruptFile


def rewrite(**entries: bytes) -> bytes:
    """Return the archive with other contents of `entries`; dots in names are underscores."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(encode_backup(BACKUP))) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, entries.get(name.replace(".", "_"), old.read(name)))
    return buffer.getvalue()


def test_a_backup_is_read_as_it_was_written() -> None:
    assert decode_backup(encode_backup(BACKUP), "b") == BACKUP


def test_standard_tools_can_read_the_archive() -> None:
    with zipfile.ZipFile(io.BytesIO(encode_backup(BACKUP))) as archive:
        assert archive.testzip() is None
        assert archive.read("metadata.checkpoint") == BACKUP.metadata
        assert json.loads(archive.read("offsets.json"))["partitions"] == [["tides", 3, 5, 900]]


@pytest.mark.parametrize("entry", ["metadata_checkpoint", "offsets_json"])
def test_a_changed_entry_is_detected_by_its_checksum(entry: str) -> None:
    with pytest.raises(CorruptFile, match="checksum"):
        decode_backup(rewrite(**{entry: b"other"}), "b")


def test_a_later_format_is_rejected() -> None:
    with pytest.raises(CorruptFile, match="format 2 is unknown"):
        decode_backup(rewrite(backup_json=b'{"format":2}'), "b")


def test_a_damaged_archive_is_a_corrupt_file_whatever_byte_is_damaged() -> None:
    data = encode_backup(BACKUP)
    for position in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[position] ^= 0x55
        try:
            assert decode_backup(bytes(damaged), "b") == BACKUP
        except CorruptFile:
            continue


@pytest.mark.parametrize("data", [b"", b"PK", b"x" * 100, encode_backup(BACKUP)[:-30]])
def test_what_is_no_archive_is_a_corrupt_file(data: bytes) -> None:
    with pytest.raises(CorruptFile, match="b: "):
        decode_backup(data, "b")
