"""Varints: the published examples, both ends of their ranges, and everything that is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import (
    read_unsigned_varint,
    read_varlong,
    skip_tagged_fields,
    write_unsigned_varint,
    write_varlong,
)


def written_bytes(write: Callable[[bytearray, int], None], value: int) -> bytes:
    out = bytearray()
    write(out, value)
    return bytes(out)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (1, "01"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**31 - 1, "ffffffff07"),
        (2**32 - 1, "ffffffff0f"),
    ],
)
def test_unsigned_varints_put_the_least_significant_seven_bits_first(value: int, data: str) -> None:
    assert written_bytes(write_unsigned_varint, value).hex() == data
    assert read_unsigned_varint(bytes.fromhex(data), 0) == (value, len(data) // 2)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-64, "7f"),
        (64, "8001"),
        (2**31 - 1, "feffffff0f"),
        (-(2**31), "ffffffff0f"),
    ],
)
def test_signed_varints_are_in_zigzag_form(value: int, data: str) -> None:
    assert written_bytes(write_varlong, value).hex() == data
    assert read_varlong(bytes.fromhex(data), 0) == (value, len(data) // 2)


@given(st.integers(-(2**63), 2**63 - 1))
@settings(max_examples=300, deadline=None)
def test_64_bit_varints_round_trip(value: int) -> None:
    data = written_bytes(write_varlong, value)
    assert len(data) <= 10
    assert read_varlong(b"\xff" + data + b"\xff", 1) == (value, len(data) + 1)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=300, deadline=None)
def test_unsigned_varints_round_trip_in_any_buffer(value: int) -> None:
    data = written_bytes(write_unsigned_varint, value)
    for buffer in (data, bytearray(data), memoryview(data)):
        assert read_unsigned_varint(buffer, 0) == (value, len(data))


@pytest.mark.parametrize(
    ("write", "value"),
    [
        (write_unsigned_varint, -1),
        (write_unsigned_varint, 2**32),
        (write_varlong, 2**63),
        (write_varlong, -(2**63) - 1),
    ],
)
def test_values_outside_the_range_are_refused(write: Callable[[bytearray, int], None], value: int) -> None:
    out = bytearray(b"before")
    with pytest.raises(ValueError, match=str(value)):
        write(out, value)
    assert out == b"before"


@pytest.mark.parametrize("data", ["8080808080", "808080808000", "ffffffff1f", "ffffffff7f", "808080808001"])
def test_a_32_bit_varint_over_5_bytes_or_32_bits_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        read_unsigned_varint(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["80" * 10, "80" * 10 + "00", "ff" * 9 + "02", "ff" * 9 + "7f"])
def test_a_64_bit_varint_over_10_bytes_or_64_bits_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        read_varlong(bytes.fromhex(data), 0)


@pytest.mark.parametrize("data", ["", "80", "ffffff"])
def test_a_truncated_varint_is_an_index_error(data: str) -> None:
    for read in (read_unsigned_varint, read_varlong):
        with pytest.raises(IndexError):
            read(bytes.fromhex(data), 0)


def test_tagged_fields_of_any_content_are_skipped() -> None:
    data = bytes.fromhex("020503aabbcc800100") + b"rest"
    assert skip_tagged_fields(data, 0) == 9
    assert skip_tagged_fields(b"\0", 0) == 1


@pytest.mark.parametrize("data", ["01", "0105", "01050a", "0205008001", "ffffffff0f", "0105ffffffff0f"])
def test_tagged_fields_beyond_the_buffer_are_refused(data: str) -> None:
    with pytest.raises((DecodeError, IndexError)):
        skip_tagged_fields(bytes.fromhex(data), 0)
