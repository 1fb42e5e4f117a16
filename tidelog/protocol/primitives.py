"""Variable-length integers and tagged fields.

Messages use unsigned varints for lengths, counts and tags. Records and the frames of metadata records use
zigzag varints. A byte has seven bits of the number, the least significant group first; its high bit means
that another byte follows.

All readers take a position and return (value, position after it). They raise DecodeError for a varint that
is too long or too large, and IndexError if the buffer ends too early. Codecs convert the IndexError to a
DecodeError once, in their outermost call.

Source: KIP-482, KIP-98; org.apache.kafka.common.utils.ByteUtils for the bounds.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tidelog.protocol.errors import DecodeError

Buffer: TypeAlias = bytes | bytearray | memoryview

TAGGED_FIELDS_MAX: Final = 1000
"""A struct with more tagged fields is rejected. All schemas have far fewer; Kafka has no bound."""


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Append `value`.

    Errors: ValueError if it is not from 0 to 2**32 - 1.
    """
    if 0 <= value < 0x80:
        out.append(value)  # Nearly always.
        return
    if not 0 <= value <= 0xFFFFFFFF:
        raise ValueError(f"{value} is not an unsigned 32-bit integer")
    _append_groups(out, value)


def read_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the unsigned 32-bit integer at `position`, which has at most 5 bytes."""
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    # Two and three bytes, as most lengths of batches have, without a loop: 0.2 instead of 0.45 us.
    second = buffer[position + 1]
    if second < 0x80:
        return value & 0x7F | second << 7, position + 2
    third = buffer[position + 2]
    if third < 0x80:
        return value & 0x7F | (second & 0x7F) << 7 | third << 14, position + 3
    value, position = _read_groups(buffer, position, 5)
    if value > 0xFFFFFFFF:
        raise DecodeError(f"unsigned varint {value} before {position} exceeds 32 bits")
    return value, position


def write_varlong(out: bytearray, value: int) -> None:
    """Append `value` in zigzag form.

    Errors: ValueError if it exceeds 64 bits.
    """
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError(f"{value} is not a signed 64-bit integer")
    _append_groups(out, value << 1 if value >= 0 else ~(value << 1))


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the zigzag 64-bit integer at `position`, which has at most 10 bytes."""
    groups, position = _read_groups(buffer, position, 10)
    if groups > 0xFFFFFFFFFFFFFFFF:
        raise DecodeError(f"varint {groups} before {position} exceeds 64 bits")
    return (groups >> 1) ^ -(groups & 1), position


def read_tag_count(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the number of tagged fields at `position`.

    Errors: DecodeError for more than the bound, or for more than fit in the buffer with two bytes each.
    """
    count, position = read_unsigned_varint(buffer, position)
    if count > TAGGED_FIELDS_MAX or count * 2 > len(buffer) - position:
        raise DecodeError(f"{count} tagged fields in {len(buffer) - position} bytes are too many")
    return count, position


def skip_tagged_fields(buffer: Buffer, position: int) -> int:
    """Return the position after the tagged fields at `position`; their content is not checked."""
    if not buffer[position]:
        return position + 1
    count, position = read_tag_count(buffer, position)
    for _ in range(count):
        _, position = read_unsigned_varint(buffer, position)
        length, position = read_unsigned_varint(buffer, position)
        position += length
    if position > len(buffer):
        raise DecodeError(f"tagged fields end at {position} of {len(buffer)} bytes")
    return position


def _append_groups(out: bytearray, groups: int) -> None:
    while groups > 0x7F:
        out.append(groups & 0x7F | 0x80)
        groups >>= 7
    out.append(groups)


def _read_groups(buffer: Buffer, position: int, longest: int) -> tuple[int, int]:
    groups = 0
    for shift in range(0, longest * 7, 7):
        byte = buffer[position]
        position += 1
        groups |= (byte & 0x7F) << shift
        if byte < 0x80:
            return groups, position
    raise DecodeError(f"a varint before {position} is longer than {longest} bytes")
