"""The int16 before the key and the value of a coordinator's record: type of the key, version of the value."""

from __future__ import annotations

import struct
from typing import Final, TypeVar

from tidelog.protocol.codec import decode_prefix
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.schema import Message

M = TypeVar("M", bound=Message)

PREFIX: Final = struct.Struct(">h")


def split_version(data: bytes, part: str) -> tuple[int, memoryview]:
    """Return the number before `data`, and the bytes after it. Raise DecodeError if `data` is too short.

    `part` is "key" or "value", for the error.
    """
    if len(data) < PREFIX.size:
        raise DecodeError(f"the {part} of a record has {len(data)} bytes and no version")
    return PREFIX.unpack_from(data)[0], memoryview(data)[PREFIX.size :]


def decode_versioned(cls: type[M], body: memoryview, version: int) -> M:
    """Return a key or a value without the number before it. Raise DecodeError for an unknown version."""
    if version not in cls.valid_versions:
        raise DecodeError(f"{cls.__name__} has version {version}, which is not supported")
    return decode_prefix(cls, body, version, 0)[0]
