"""The latest offset of each key in the part of a log that is being compacted.

Bounds: `key_count_max` keys, or those of one batch. A key takes at most ENTRY_BYTES: its slots in a dict at
its emptiest, while that grows (90), an int (32), and the key, or in the place of a long one its digest (112).
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
    """Keys with their latest offsets, up to `latest_offset`; from -1 on nothing has been taken in.

    Invariant: offsets of `offsets` above `latest_offset` are of a batch that did not fit as a whole.
    """

    __slots__ = ("key_count_max", "latest_offset", "offsets")

    def __init__(self, key_count_max: int) -> None:
        assert key_count_max > 0, f"an offset map for {key_count_max} keys never gets anything done"
        self.key_count_max = key_count_max
        self.offsets: dict[bytes, Offset] = {}
        self.latest_offset: Offset = -1

    @classmethod
    def within(cls, memory_bytes: int, load_factor: float) -> OffsetMap:
        """A map that takes at most this share of the memory."""
        return cls(max(1, int(memory_bytes * load_factor) // ENTRY_BYTES))

    @property
    def utilization(self) -> float:
        """How full the map is, from 0 to 1."""
        return len(self.offsets) / self.key_count_max

    def put_all(self, keys: list[bytes], offsets: list[Offset]) -> bool:
        """Take in the keys of one batch with their offsets, which rise; False when not all of them fit.

        The first batch always does, so that compaction gets on.
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
        """Everything up to `offset` (inclusive) has been taken in."""
        self.latest_offset = max(self.latest_offset, offset)


def represented(keys: list[bytes]) -> list[bytes]:
    """The keys as the map has them: long ones by their digests."""
    if max(map(len, keys), default=0) <= WHOLE_KEY_BYTES_MAX:
        return keys
    return [key if len(key) <= WHOLE_KEY_BYTES_MAX else blake2b(key).digest() for key in keys]
