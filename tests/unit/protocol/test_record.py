"""Records: the batches of Kafka, every size of lengths, and validation."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.batches.damage import damaged_copies
from tests.support.batches.kafka_batches import (
    append_all,
    golden_batch,
    golden_batches,
    large_records,
    small_records,
)
from tidelog.protocol.batch import BATCH_OVERHEAD, read_header, write_header
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import write_varlong
from tidelog.protocol.record import Record, iterate_records, read_records


def test_compressed_batches_of_kafka_are_read() -> None:
    batch_names = set()
    for name, data in golden_batches():
        kind, _, codec = name.partition(" ")
        if kind in ("small", "large"):
            batch_names.add(name)
            assert read_header(data).compression is Compression.from_name(codec)
            assert read_records(data) == (small_records(1000) if kind == "small" else large_records())
    assert len(batch_names) == 9


def test_a_batch_is_read_at_any_position_of_a_buffer() -> None:
    data = golden_batch("small zstd")
    buffer = memoryview(b"\xaa" * 9 + data + b"\xbb" * 9)
    header = read_header(buffer, 9)
    assert read_records(buffer, 9) == read_records(buffer, 9, header) == small_records(1000)


def test_keys_and_values_may_be_any_bytes_and_are_copied() -> None:
    key, value = bytearray(b"key"), memoryview(bytearray(b"value"))
    builder = BatchBuilder()
    builder.append(0, key, value)  # type: ignore[arg-type]
    key[0] = value[0] = 0
    assert read_records(builder.build())[0][2:4] == (b"key", b"value")


@pytest.mark.parametrize("length", [0, 1, 62, 63, 64, 65, 2047, 2048, 8191, 8192, 70_000, 1_100_000])
def test_lengths_of_every_varint_size_are_read_and_written(length: int) -> None:
    builder = BatchBuilder()
    builder.append(0, bytes(length), None, [("h", bytes(length))])
    builder.append(0, None, bytes(length))
    assert [record[2:] for record in read_records(builder.build())] == [
        (bytes(length), None, (("h", bytes(length)),)),
        (None, bytes(length), ()),
    ]


# Invalid records, written by hand because no builder creates them.


def varint(number: int) -> bytes:
    out = bytearray()
    write_varlong(out, number)
    return bytes(out)


def raw_record(
    *,
    offset_delta: int = 0,
    key: bytes = b"\x02k",
    value: bytes = b"\x02v",
    headers: bytes = b"\x00",
    length: int | None = None,
) -> bytes:
    body = b"\0\0" + varint(offset_delta) + key + value + headers
    return varint(len(body) if length is None else length) + body


def raw_batch(
    payload: bytes, *, count: int = 1, last_offset_delta: int | None = None, attributes: int = 0
) -> bytes:
    batch = bytearray(BATCH_OVERHEAD) + payload
    header = read_header(BatchBuilder().build())._replace(
        batch_length=len(batch) - 12,
        record_count=count,
        last_offset_delta=max(count - 1, 0) if last_offset_delta is None else last_offset_delta,
        attributes=attributes,
    )
    write_header(batch, 0, header)
    return bytes(batch)


def is_rejected(batch: bytes) -> bool:
    with pytest.raises(DecodeError):
        read_records(batch)
    return True


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1), (2**62, 2**62), (5, 2**63 - 1)])
def test_a_timestamp_outside_64_bits_is_refused(base: int, delta: int) -> None:
    builder = BatchBuilder()
    builder.append(0, None, b"value")
    builder.append(delta, None, b"value")
    batch = builder.build()
    write_header(batch, 0, read_header(batch)._replace(base_timestamp=base))
    with pytest.raises(DecodeError, match="64 bits"):
        read_records(batch)


def test_the_hand_written_record_is_valid_without_a_defect() -> None:
    assert read_records(raw_batch(raw_record())) == [Record(0, -1, b"k", b"v", ())]


@pytest.mark.parametrize("count", [0, 1, 3, 2**31 - 1])
def test_a_wrong_record_count_is_refused(count: int) -> None:
    payload = raw_record() + raw_record(offset_delta=1)
    assert is_rejected(raw_batch(payload, count=count, last_offset_delta=2**31 - 1))


def test_a_record_count_beyond_the_bytes_is_refused_before_the_first_record() -> None:
    records = iterate_records(raw_batch(raw_record() * 3, count=5, last_offset_delta=10))
    with pytest.raises(DecodeError, match="5 records do not fit"):
        next(records)


def test_iteration_refuses_the_first_invalid_record() -> None:
    payload = raw_record() + raw_record(offset_delta=1) + raw_record(offset_delta=1)
    records = iterate_records(raw_batch(payload, count=3))
    assert [next(records).offset, next(records).offset] == [0, 1]
    with pytest.raises(DecodeError, match="offset delta 1 after 1"):
        next(records)


@pytest.mark.parametrize("trailing", [b"\0", b"\x02", b"abc", raw_record(offset_delta=1)])
def test_bytes_after_the_last_record_are_refused(trailing: bytes) -> None:
    assert is_rejected(raw_batch(raw_record() + trailing))


@pytest.mark.parametrize("length", [-1, 0, 1, 5, 9, 100, 2**31 - 1, 2**62, -(2**31)])
def test_a_wrong_record_length_is_refused(length: int) -> None:
    true_length = len(raw_record()) - 1
    assert length != true_length
    assert is_rejected(raw_batch(raw_record(length=length)))
    assert is_rejected(raw_batch(raw_record(length=length) + raw_record(offset_delta=1), count=2))


@pytest.mark.parametrize("length", [-2, -(2**31), 2, 3, 100, 2**31 - 1, 2**62])
def test_wrong_key_value_and_header_lengths_are_refused(length: int) -> None:
    wrong_length = varint(length)
    assert is_rejected(raw_batch(raw_record(key=wrong_length + b"k")))
    assert is_rejected(raw_batch(raw_record(value=wrong_length + b"v")))
    assert is_rejected(raw_batch(raw_record(headers=b"\x02" + wrong_length + b"k" + b"\x02v")))
    assert is_rejected(raw_batch(raw_record(headers=b"\x02\x02k" + wrong_length + b"v")))


@pytest.mark.parametrize("count", [-1, -5, 2, 2**31 - 1, 2**62])
def test_a_wrong_header_count_is_refused(count: int) -> None:
    assert is_rejected(raw_batch(raw_record(headers=varint(count) + b"\x02k\x02v")))


def test_a_null_header_key_is_refused() -> None:
    assert is_rejected(raw_batch(raw_record(headers=b"\x02\x01\x02v")))


def test_a_header_key_with_invalid_utf_8_gets_replacement_characters() -> None:
    """Brokers accept any bytes, and C and Go clients send them: such a record must not stop its readers."""
    (record,) = read_records(raw_batch(raw_record(headers=b"\x02\x06a\xffz\x02v")))
    assert record.headers == (("a\ufffdz", b"v"),)


@pytest.mark.parametrize(
    "offset_deltas", [(0, 0), (1, 0), (-1, 0), (0, 2**31), (0, 5), (0, 2**40), (-(2**31), 0)]
)
def test_offsets_that_decrease_or_leave_the_batch_are_refused(offset_deltas: tuple[int, int]) -> None:
    payload = b"".join(raw_record(offset_delta=delta) for delta in offset_deltas)
    assert is_rejected(raw_batch(payload, count=2, last_offset_delta=4))


def test_offset_gaps_of_compaction_are_allowed() -> None:
    payload = b"".join(raw_record(offset_delta=delta) for delta in (2, 7))
    records = read_records(raw_batch(payload, count=2, last_offset_delta=9))
    assert [record.offset for record in records] == [2, 7]


@pytest.mark.parametrize(
    "varint_bytes", [b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\x00", b"\xff" * 100_000, b"\x80" * 100_000]
)
def test_a_varint_that_is_too_long_is_refused_at_any_position(varint_bytes: bytes) -> None:
    assert is_rejected(raw_batch(varint_bytes))
    assert is_rejected(raw_batch(b"\x20\0" + varint_bytes))
    assert is_rejected(raw_batch(b"\x20\0\0" + varint_bytes))
    assert is_rejected(raw_batch(raw_record(key=varint_bytes)))
    assert is_rejected(raw_batch(raw_record(value=varint_bytes)))
    assert is_rejected(raw_batch(raw_record(headers=varint_bytes)))


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_codec_is_refused(number: int) -> None:
    assert is_rejected(raw_batch(raw_record(), attributes=number))


@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_records_that_contradict_the_attributes_are_refused(codec: Compression) -> None:
    assert is_rejected(raw_batch(raw_record(), attributes=codec))


@pytest.mark.parametrize("name", [name for name, _ in golden_batches() if name.startswith("small")])
def test_a_batch_truncated_at_any_byte_is_refused(name: str) -> None:
    data = golden_batch(name)
    for length in range(len(data)):
        assert is_rejected(data[:length])
        # Truncated, with a length field that matches.
        if length > BATCH_OVERHEAD:
            shorter = bytearray(data[:length])
            struct.pack_into(">i", shorter, 8, length - 12)
            assert is_rejected(bytes(shorter))


@pytest.mark.parametrize("name", [name for name, _ in golden_batches() if name.startswith("small")])
def test_damaged_records_are_read_or_refused(name: str) -> None:
    for damaged in damaged_copies(golden_batch(name), name, flips=2000):
        try:
            records = read_records(damaged)
        except DecodeError:
            continue
        assert all(isinstance(record, Record) for record in records)


@settings(max_examples=400, deadline=None)
@given(payload=st.binary(max_size=60), count=st.integers(0, 5), codec=st.sampled_from(Compression))
def test_random_payloads_are_records_or_a_decode_error(
    payload: bytes, count: int, codec: Compression
) -> None:
    try:
        records = read_records(raw_batch(payload, count=count, attributes=codec))
    except DecodeError:
        return
    assert len(records) == count


def test_a_batch_that_decompresses_beyond_the_bound_is_refused() -> None:
    for codec in Compression:
        if codec is not Compression.NONE:
            batch = append_all(BatchBuilder(compression=codec), large_records()).build()
            expanded = append_all(BatchBuilder(), large_records()).estimated_size_bytes - BATCH_OVERHEAD
            assert read_records(batch, max_decompressed_bytes=expanded) == large_records()
            with pytest.raises(DecodeError, match=str(expanded - 1)):
                read_records(batch, max_decompressed_bytes=expanded - 1)
