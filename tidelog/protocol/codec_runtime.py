"""The functions that generated encoders and decoders call."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final
from uuid import UUID

from tidelog.protocol.errors import DecodeError
from tidelog.protocol.primitives import (
    Buffer,
    read_tag_count,
    read_unsigned_varint,
    skip_tagged_fields,
    write_unsigned_varint,
)
from tidelog.protocol.steps import append_in_steps, copied

SMALL_ARRAY: Final = 32
"""Shorter arrays of numbers have precompiled layouts."""

STRING_BYTES_MAX: Final = 0x7FFF
"""The maximum number of bytes of a string, in flexible versions too."""

_ARRAY_CODES: Final = "?bhHiIqd"
_CACHED_UUIDS_MAX: Final = 4096


def write_string_length(out: bytearray, length: int) -> None:
    """Append the compact length of a string of 127 bytes or more.

    Errors: ValueError for a string that is too long.
    """
    if length > STRING_BYTES_MAX:
        raise ValueError(f"a string of {length} bytes is longer than {STRING_BYTES_MAX}")
    write_unsigned_varint(out, length + 1)


def write_tagged_field(out: bytearray, tag: int, body: bytearray) -> None:
    """Append one tagged field: `tag`, the size of `body`, and `body`."""
    write_unsigned_varint(out, tag)
    write_unsigned_varint(out, len(body))
    out += body


def read_string_length(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the length plus one of a compact string of 127 bytes or more, and the position after it.

    Errors: DecodeError for a string that is too long.
    """
    length, position = read_unsigned_varint(buffer, position)
    if length > STRING_BYTES_MAX + 1:
        raise DecodeError(
            f"the string at {position} has {length - 1} bytes; at most {STRING_BYTES_MAX} are allowed"
        )
    return length, position


def null_error(field: str, length: int, position: int) -> DecodeError:
    """Return the error for a `field` that cannot be null, but is null or has a negative length."""
    return DecodeError(f"{field} cannot be null, but has the length {length} before {position}")


def count_error(field: str, count: int, remaining: int) -> DecodeError:
    """Return the error for a `count` of elements that do not fit in the remaining bytes."""
    return DecodeError(f"{count} elements of {field} do not fit in {remaining} bytes")


def tag_size_error(field: str, tag: int, position: int, end: int) -> DecodeError:
    """Return the error for a tagged field whose content does not have the stated size."""
    return DecodeError(f"tagged field {tag} ({field}) ends at {position}, but its stated end is {end}")


# The same ids of topics and directories are read often; creating a UUID takes ten times the look-up.
read_uuid = lru_cache(_CACHED_UUIDS_MAX)(lambda data: UUID(bytes=data))

NAMES: Final = {
    "DecodeError": DecodeError,
    "append_in_steps": append_in_steps,
    "copied": copied,
    "count_error": count_error,
    "null_error": null_error,
    "pack": struct.pack,
    "read_string_length": read_string_length,
    "read_tag_count": read_tag_count,
    "read_unsigned_varint": read_unsigned_varint,
    "read_uuid": read_uuid,
    "skip_tagged_fields": skip_tagged_fields,
    "tag_size_error": tag_size_error,
    "unpack_from": struct.unpack_from,
    "write_string_length": write_string_length,
    "write_tagged_field": write_tagged_field,
    "write_unsigned_varint": write_unsigned_varint,
}
"""The objects that generated source may use, by name."""


def array_packers(code: str) -> tuple[object, ...]:
    """Return the packers of 0 to 31 numbers of `code`."""
    return tuple(layout.pack for layout in _LAYOUTS[code])


def array_unpackers(code: str) -> tuple[object, ...]:
    """Return the unpackers of 0 to 31 numbers of `code`."""
    return tuple(layout.unpack_from for layout in _LAYOUTS[code])


_LAYOUTS: Final = {
    code: tuple(struct.Struct(f">{count}{code}") for count in range(SMALL_ARRAY)) for code in _ARRAY_CODES
}
