"""Selects the partition of an internal topic that stores a key, by Java's hash of the key."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final

_MASK_32 = 0xFFFFFFFF
_MASK_31 = 0x7FFFFFFF

SHORT_CHARACTERS: Final = 255
CACHED_HASHES: Final = 1_000
"""The number of hashes that are kept, only of texts of at most `SHORT_CHARACTERS`: about 0.5 MB."""


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode of `text` as an unsigned 32-bit number."""
    return _hash_of_short(text) if len(text) <= SHORT_CHARACTERS else _hash_of(text)


def _hash_of(text: str) -> int:
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & _MASK_32
    return value


# Every request of a group or of a producer needs the hash of its id.
_hash_of_short = lru_cache(maxsize=CACHED_HASHES)(_hash_of)


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of `key`. Kafka uses the absolute value of the hash, and 0 for the lowest int."""
    value = java_string_hash(key)
    if value > _MASK_31:
        value = (-value) & _MASK_32
    if value > _MASK_31:
        value = 0
    return value % partition_count
