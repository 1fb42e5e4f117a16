"""The latest offset of each key in the part of a log that is being compacted.

Bounds: `key_count_max` keys, or those of one batch. A key takes at most ENTRY_BYTES: its slots in a dict that
has just grown (90), an int (32), and the key or, for a long one, its digest (112).
Source: SkimpyOffsetMap of Apache Kafka 4.3, which keeps 24 bytes for each key.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from tidelog.protocol.ids import Offset

ENTRY_BYTES: Final = 240
WHOLE_KEY_BYTES_MAX: Final = 63
"""A longer key is represented by a digest of 64 bytes, which therefore is never equal to a whole key."""


class OffsetMap:
    """The keys with their latest offsets up to `latest_offset`, which is -1 for an empty map.

    Invariant: `offsets` above `latest_offset` belong to a batch that did not fit completely.
    """

    __slots__ = ("key_count_max", "latest_offset", "offsets")

    def __init__(self, key_count_max: int) -> None:
        assert key_count_max > 0, f"an offset map needs space for at least one key, not {key_count_max}"
        self.key_count_max = key_count_max
        self.offsets: dict[bytes, Offset] = {}
        self.latest_offset: Offset = -1

    @classmethod
    def within(cls, memory_bytes: int, load_factor: float) -> OffsetMap:
        """Return a map that takes at most this share of the memory."""
        return cls(max(1, int(memory_bytes * load_factor) // ENTRY_BYTES))

    @property
    def utilization(self) -> float:
        """The used share of the map, from 0 to 1."""
        return len(self.offsets) / self.key_count_max

    def put_all(self, keys: list[bytes], offsets: list[Offset]) -> bool:
        """Add the keys of one batch with their rising offsets; return False if not all of them fit.

        The first batch always fits, so that compaction makes progress.
        """
        if not self.offsets or len(self.offsets) + len(keys) <= self.key_count_max:
            self.offsets.update(zip(keys, offsets, strict=True))
            return True
        for key, offset in zip(keys, offsets, strict=True):
            if len(self.offsets) >= self.key_count_max:
                return False
            self.offsets[key] = offset
        return True

    def taken_up_to(self, offset: Offset) -> None:
        """Record that all keys up to `offset` (inclusive) were added."""
        self.latest_offset = max(self.latest_offset, offset)


def represented(keys: list[bytes]) -> list[bytes]:
    """Return the keys as they are in the map: long ones as digests."""
    if max(map(len, keys), default=0) <= WHOLE_KEY_BYTES_MAX:
        return keys
    return [key if len(key) <= WHOLE_KEY_BYTES_MAX else blake2b(key).digest() for key in keys]
