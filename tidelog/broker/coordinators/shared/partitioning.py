"""Selects the partition of an internal topic that stores a key, by Java's hash of the key."""

from __future__ import annotations

import struct

_MASK_32 = 0xFFFFFFFF
_MASK_31 = 0x7FFFFFFF


def java_string_hash(text: str) -> int:
    """Return Java's String.hashCode of `text` as an unsigned 32-bit number."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & _MASK_32
    return value


def partition_for(key: str, partition_count: int) -> int:
    """Return the partition of `key`. Kafka uses the absolute value of the hash, and 0 for the lowest int."""
    value = java_string_hash(key)
    if value > _MASK_31:
        value = (-value) & _MASK_32
    if value > _MASK_31:
        value = 0
    return value % partition_count
