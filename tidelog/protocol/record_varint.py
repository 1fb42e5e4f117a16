"""The zigzag varints of records: lengths, counts and deltas.

`read_varint` and `encode_varint` are the general forms. Records with small numbers, which are most of them,
are encoded with a table.
"""

from __future__ import annotations

from typing import Final

from tidelog.protocol.compression import BytesLike
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import write_varlong

_VARINT_BYTES_MAX: Final = 10
_THREE_BYTES_MAX: Final = 1 << 20
"""Smaller numbers have varints of at most three bytes."""

SHORT_VARINT_COUNT: Final = 2048
"""Lengths and deltas below this number are encoded by a look-up in `SHORT_VARINTS`."""


def read_varint(data: BytesLike, start: int) -> tuple[int, int]:
    """Return the zigzag varint at `start`, and the position of its last byte.

    Errors: IndexError if `data` ends within the varint; DecodeError if it exceeds 64 bits.
    """
    byte = data[start]
    value = byte & 0x7F
    last = start
    while byte & 0x80:
        last += 1
        byte = data[last]
        value |= (byte & 0x7F) << 7 * (last - start)
        if value >> 64 or last - start >= _VARINT_BYTES_MAX:
            raise DecodeError(f"the varint at {start} exceeds 64 bits")
    return (value >> 1) ^ -(value & 1), last


def encode_varint(number: int) -> bytes:
    """Return the zigzag varint of `number`.

    Errors: ValueError if it exceeds 64 bits.
    """
    if SHORT_VARINT_COUNT <= number < _THREE_BYTES_MAX:
        # The offset deltas of large batches; a loop takes three times as long.
        zigzag = number << 1
        if zigzag < 1 << 14:
            return bytes((zigzag & 0x7F | 0x80, zigzag >> 7))
        return bytes((zigzag & 0x7F | 0x80, zigzag >> 7 & 0x7F | 0x80, zigzag >> 14))
    encoded = bytearray()
    write_varlong(encoded, number)
    return bytes(encoded)


SHORT_VARINTS: Final = tuple(map(encode_varint, range(SHORT_VARINT_COUNT)))
"""The varint of each number from 0 on."""
