"""Which partition of an internal topic keeps a key: Java's hash of it, modulo the partitions."""

from __future__ import annotations

import struct

_MASK_32 = 0xFFFFFFFF
_MASK_31 = 0x7FFFFFFF


def java_string_hash(text: str) -> int:
    """Java's String.hashCode as an unsigned 32-bit number: over UTF-16 units, overflowing."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        value = (31 * value + unit) & _MASK_32
    return value


def partition_for(key: str, partition_count: int) -> int:
    """The partition of a key; Kafka takes the absolute value of the hash, and 0 for the lowest."""
    value = java_string_hash(key)
    if value > _MASK_31:
        value = (-value) & _MASK_32
    if value > _MASK_31:
        value = 0
    return value % partition_count
