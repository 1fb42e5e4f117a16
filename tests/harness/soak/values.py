"""Records that contain their producer and number, and detect every changed byte."""

from __future__ import annotations

import random
import struct

_HEAD = struct.Struct(">4sIQ")
_MAGIC = b"soak"
_SIZE_LEAST = 50
_SIZE_SPREAD = 900
_PRIME = 7919
# Half random, half words, so that codecs compress the value, but not completely.
_FILLER = b"".join(random.Random(1).randbytes(16) + b"tide after tide, " for _ in range(64))
DAMAGED = (-1, -1)


def value_of(producer: int, number: int) -> bytes:
    """Return the value of record `number` of `producer`: 66 to about 970 bytes."""
    start = number % 64
    size = _SIZE_LEAST + number * _PRIME % _SIZE_SPREAD
    return _HEAD.pack(_MAGIC, producer, number) + _FILLER[start : start + size]


def writer_of(value: bytes | None) -> tuple[int, int]:
    """Return producer and number of a record that was read, or DAMAGED if it was not sent like this."""
    if value is None or len(value) < _HEAD.size:
        return DAMAGED
    _, producer, number = _HEAD.unpack_from(value)
    return (producer, number) if value == value_of(producer, number) else DAMAGED
