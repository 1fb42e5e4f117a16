"""Batch headers: fields, validation, and changes by the leader."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.batches.kafka_batches import golden_batch, golden_batches
from tidelog.protocol.batch import (
    ATTRIBUTE_DELETE_HORIZON,
    BATCH_OVERHEAD,
    BatchHeader,
    crc_is_valid,
    empty_batch,
    iterate_headers,
    read_header,
    set_max_timestamp,
    stamp,
    write_header,
)
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import read_records


def a_batch(count: int = 3, base_offset: int = 100) -> bytearray:
    builder = BatchBuilder(
        base_offset=base_offset,
        leader_epoch=5,
        producer=BatchProducer(producer_id=9, producer_epoch=2, base_sequence=40),
    )
    for index in range(count):
        builder.append(1000 + index, b"key", b"value %d" % index)
    return builder.build()


def test_every_field_of_the_header_is_read() -> None:
    batch = a_batch()
    header = read_header(batch)
    assert header == BatchHeader(
        base_offset=100,
        batch_length=len(batch) - 12,
        partition_leader_epoch=5,
        magic=2,
        crc=int.from_bytes(batch[17:21], "big"),
        attributes=0,
        last_offset_delta=2,
        base_timestamp=1000,
        max_timestamp=1002,
        producer_id=9,
        producer_epoch=2,
        base_sequence=40,
        record_count=3,
    )
    assert (header.size_bytes, header.last_offset, header.next_offset) == (len(batch), 102, 103)
    assert (header.last_sequence, header.has_producer_id) == (42, True)


def test_sequences_wrap_to_zero_and_none_stays_none() -> None:
    header = read_header(a_batch())
    assert header._replace(base_sequence=2**31 - 2).last_sequence == 0
    assert header._replace(base_sequence=-1).last_sequence == -1
    assert not header._replace(producer_id=-1).has_producer_id


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        (0x08, "is_log_append_time"),
        (0x10, "is_transactional"),
        (0x20, "is_control"),
    ],
)
def test_each_attribute_bit_has_one_meaning(attributes: int, name: str) -> None:
    names = ("is_log_append_time", "is_transactional", "is_control")
    header = read_header(a_batch())._replace(attributes=attributes)
    assert [each for each in names if getattr(header, each)] == [name]
    assert header.compression is Compression.NONE


def test_unknown_compression_codecs_are_refused() -> None:
    header = read_header(a_batch())
    for codec in Compression:
        assert header._replace(attributes=codec | 0x18).compression is codec
    for number in (5, 6, 7):
        with pytest.raises(DecodeError, match=str(number)):
            _ = header._replace(attributes=number).compression


def test_a_complete_header_is_required() -> None:
    batch = a_batch()
    assert read_header(bytes(batch[:BATCH_OVERHEAD])) == read_header(batch)
    for length in range(BATCH_OVERHEAD):
        with pytest.raises(DecodeError):
            read_header(batch[:length])


@pytest.mark.parametrize(
    ("position", "layout", "value"),
    [
        (8, ">i", 48),
        (8, ">i", 0),
        (8, ">i", -1),
        (8, ">i", -(2**31)),
        (16, ">b", 0),
        (16, ">b", 1),
        (16, ">b", 3),
        (16, ">b", -1),
        (23, ">i", -1),
        (57, ">i", -1),
        (57, ">i", -(2**31)),
    ],
)
def test_invalid_headers_are_refused(position: int, layout: str, value: int) -> None:
    batch = a_batch()
    struct.pack_into(layout, batch, position, value)
    with pytest.raises(DecodeError, match=str(value)):
        read_header(batch)


@settings(max_examples=300, deadline=None)
@given(data=st.binary(max_size=200), position=st.integers(0, 200))
def test_random_bytes_are_a_header_or_a_decode_error(data: bytes, position: int) -> None:
    try:
        header = read_header(data, position)
    except DecodeError:
        return
    assert header.size_bytes >= BATCH_OVERHEAD
    assert header.next_offset > header.base_offset
    crc_is_valid(data, position, header)


def test_batches_are_split_and_a_truncated_one_is_refused() -> None:
    first, second = a_batch(), a_batch(5, 103)
    both = bytes(first + second)
    headers = list(iterate_headers(memoryview(both)))
    assert [(position, header.base_offset) for position, header in headers] == [(0, 100), (len(first), 103)]
    assert list(iterate_headers(b"")) == []
    for length in range(1, len(both)):
        if length != len(first):
            with pytest.raises(DecodeError):
                list(iterate_headers(both[:length]))


def test_a_length_beyond_the_buffer_is_a_truncated_batch() -> None:
    batch = a_batch()
    struct.pack_into(">i", batch, 8, 2**31 - 1)
    with pytest.raises(DecodeError):
        list(iterate_headers(batch))
    assert not crc_is_valid(batch, 0, read_header(batch))
    with pytest.raises(DecodeError):
        read_records(batch)


def test_the_checksum_detects_every_flipped_bit_after_it() -> None:
    batch = a_batch()
    assert crc_is_valid(batch, 0, read_header(batch))
    header = read_header(batch)
    for position in range(21, len(batch)):
        for bit in range(8):
            damaged = bytearray(batch)
            damaged[position] ^= 1 << bit
            assert not crc_is_valid(damaged, 0, header)


def test_setting_offset_and_epoch_keeps_the_checksum() -> None:
    batch = bytearray(b"\xaa" * 7) + a_batch() + b"\xbb"
    before = bytes(batch)
    stamp(memoryview(batch), 7, 2**62, 2**31 - 1)
    header = read_header(batch, 7)
    assert (header.base_offset, header.partition_leader_epoch) == (2**62, 2**31 - 1)
    assert crc_is_valid(batch, 7, header)
    changed = {index for index in range(len(batch)) if batch[index] != before[index]}
    assert changed <= {*range(7, 15), *range(19, 23)}
    assert [record.offset for record in read_records(batch, 7)] == [2**62, 2**62 + 1, 2**62 + 2]


@pytest.mark.parametrize("log_append_time", [True, False])
def test_setting_a_timestamp_updates_the_checksum(log_append_time: bool) -> None:
    batch = bytearray(b"\xaa" * 3) + a_batch() + b"\xbb"
    set_max_timestamp(batch, 3, 5000, log_append_time=log_append_time)
    header = read_header(batch, 3)
    assert crc_is_valid(batch, 3, header)
    assert (header.max_timestamp, header.is_log_append_time) == (5000, log_append_time)
    expected = [5000] * 3 if log_append_time else [1000, 1001, 1002]
    assert [record.timestamp for record in read_records(batch, 3)] == expected
    set_max_timestamp(batch, 3, 1002, log_append_time=False)
    assert batch[3:-1] == a_batch()


def test_an_emptied_batch_equals_kafkas() -> None:
    header = BatchHeader(
        base_offset=1000,
        batch_length=500,
        partition_leader_epoch=6,
        magic=2,
        crc=0,
        attributes=0x10 | ATTRIBUTE_DELETE_HORIZON | Compression.ZSTD,
        last_offset_delta=11,
        base_timestamp=1_600_000_000_000,
        max_timestamp=1_700_000_000_000,
        producer_id=77,
        producer_epoch=3,
        base_sequence=9,
        record_count=12,
    )
    batch = empty_batch(header)
    assert batch == golden_batch("empty")
    assert read_records(batch) == []
    assert read_header(batch).next_offset == 1012


def test_an_empty_batch_may_name_a_codec() -> None:
    batch = empty_batch(read_header(a_batch()))
    write_header(batch, 0, read_header(batch)._replace(attributes=Compression.ZSTD))
    assert read_records(batch) == []


@pytest.mark.parametrize(("name", "data"), golden_batches())
def test_checksums_of_kafkas_batches_are_valid(name: str, data: bytes) -> None:
    header = read_header(data)
    assert header.size_bytes == len(data), name
    assert crc_is_valid(data, 0, header)
    assert [each for _, each in iterate_headers(data)] == [header]
