"""Records that say who wrote them and prove that no byte changed on the way."""

from __future__ import annotations

import random
import struct

_HEAD = struct.Struct(">4sIQ")
_MAGIC = b"soak"
_SIZE_LEAST = 50
_SIZE_SPREAD = 900
_PRIME = 7919
# Half random, half words, so that codecs find something to do and cannot do everything.
_FILLER = b"".join(random.Random(1).randbytes(16) + b"tide after tide, " for _ in range(64))
DAMAGED = (-1, -1)


def value_of(producer: int, number: int) -> bytes:
    """What `producer` sends as its record `number`: 66 to about 970 bytes."""
    start = number % 64
    size = _SIZE_LEAST + number * _PRIME % _SIZE_SPREAD
    return _HEAD.pack(_MAGIC, producer, number) + _FILLER[start : start + size]


def writer_of(value: bytes | None) -> tuple[int, int]:
    """Producer and number of a record that was read; DAMAGED when it is not what they sent."""
    if value is None or len(value) < _HEAD.size:
        return DAMAGED
    _, producer, number = _HEAD.unpack_from(value)
    return (producer, number) if value == value_of(producer, number) else DAMAGED
