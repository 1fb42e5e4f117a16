"""Scanning the batches of a valid or corrupt file."""

from __future__ import annotations

import struct

import pytest

from tests.support.batches.old_messages import old_message
from tests.support.logs.partition_logs import batch
from tidelog.storage.disk.files import File
from tidelog.storage.segment.batch_scan import (
    VERIFIED_SCAN_BYTES,
    CorruptLog,
    UnsupportedFormat,
    checked_batches,
    headers,
)
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


def file_with(*parts: bytes | bytearray) -> File:
    disk = CrashFileSystem()
    file = disk.open("/segment.log", create=True)
    for part in parts:
        file.append(part)
    return file


def three() -> list[bytearray]:
    return [batch(["x" * size], base_offset=offset) for offset, size in enumerate((10, 3_000, 1))]


@pytest.mark.parametrize("chunk_bytes", [61, 62, 100, 4_096, 1 << 20])
def test_headers_are_found_for_any_chunk_size(chunk_bytes: int) -> None:
    batches = three()
    file = file_with(*batches)
    places = [
        (position, header.base_offset) for position, header in headers(file, 0, file.size(), chunk_bytes)
    ]
    assert places == [(0, 0), (len(batches[0]), 1), (len(batches[0]) + len(batches[1]), 2)]


def test_a_scan_may_start_and_end_at_any_batch() -> None:
    batches = three()
    file = file_with(*batches)
    start, end = len(batches[0]), len(batches[0]) + len(batches[1])
    assert [header.base_offset for _, header in headers(file, start, end)] == [1]


def test_a_batch_longer_than_the_verified_chunk_is_read_completely() -> None:
    big = batch(["x" * (VERIFIED_SCAN_BYTES + 10)])
    batches = list(checked_batches(file_with(batch(["a"]), big, batch(["b"]))))
    assert [len(each.data) for each in batches] == [
        len(batch(["a"])),
        len(big),
        len(batch(["b"])),
    ]


@pytest.mark.parametrize("cut", [1, 12, 30, 60, 61, 70])
def test_a_truncated_batch_is_reported_with_file_and_position(cut: int) -> None:
    first, second = batch(["a"]), batch(["b" * 20])
    file = file_with(first, second[:cut])
    valid_headers = []
    with pytest.raises(CorruptLog, match=f"segment.log: at byte {len(first)}") as caught:
        valid_headers += [one.header for one in checked_batches(file)]
    assert caught.value.position == len(first)


def test_zeros_are_not_a_batch() -> None:
    with pytest.raises(CorruptLog, match="at byte 0"):
        list(checked_batches(file_with(bytes(200))))
    with pytest.raises(CorruptLog, match="at byte 0"):
        list(headers(file_with(bytes(200)), 0, 200))


@pytest.mark.parametrize("position", [18, 25, 40, 61, 65])
def test_a_change_of_any_checksummed_byte_is_detected(position: int) -> None:
    data = batch(["abc"])
    data[position] ^= 0x10
    with pytest.raises(CorruptLog, match="at byte 0"):
        list(checked_batches(file_with(data)))


def test_a_length_beyond_the_file_allocates_nothing() -> None:
    data = batch(["abc"])
    data[8:12] = struct.pack(">i", 2**31 - 1)
    with pytest.raises(CorruptLog, match="2147483659 bytes, only"):
        list(checked_batches(file_with(data)))


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_distinguished_from_corruption(magic: int) -> None:
    with pytest.raises(UnsupportedFormat, match=f"messages of format {magic}"):
        list(checked_batches(file_with(batch(["a"]), old_message(magic))))


@pytest.mark.parametrize("magic", [0, 1])
def test_bytes_that_resemble_an_old_message_are_corruption(magic: int) -> None:
    data = bytearray(old_message(magic))
    data[-1] ^= 1
    with pytest.raises(CorruptLog):
        list(checked_batches(file_with(bytes(data))))
