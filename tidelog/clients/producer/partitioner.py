"""Chooses the partition of a record: by the hash of its key, or a sticky partition for records without a key.

Records with a key must go to the partition that Kafka's own clients choose. The hash is therefore exactly
Kafka's variant of MurmurHash2 (32 bits, its own seed, little endian). Records without a key go to one
partition for `batch_size` bytes, which fills whole batches, and then to another one that is chosen at random.
A partition with a long queue, because its broker is slow, is chosen less often.

Source: KIP-480, KIP-794 (sticky and adaptive), Utils.murmur2 of Kafka's clients.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

from tidelog.base.randomness import Randomness

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995
_CACHED_KEYS = 65_536
_CACHED_KEY_BYTES_MAX = 64


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit MurmurHash2 of `data`, unsigned."""
    length = len(data)
    words = length >> 2
    value = _SEED ^ length
    for word in struct.unpack_from(f"<{words}I", data):
        k = (word * _M) & _MASK
        k = ((k ^ (k >> 24)) * _M) & _MASK
        value = ((value * _M) & _MASK) ^ k
    rest = length & 3
    if rest:
        tail = int.from_bytes(data[words << 2 :], "little")
        value = ((value ^ tail) * _M) & _MASK
    value = ((value ^ (value >> 13)) * _M) & _MASK
    return value ^ (value >> 15)


@lru_cache(maxsize=_CACHED_KEYS)
def _positive_hash(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition that every Kafka client chooses for `key`."""
    if len(key) > _CACHED_KEY_BYTES_MAX:
        return (murmur2(key) & 0x7FFFFFFF) % partition_count
    return _positive_hash(key) % partition_count


class StickyPartitioner:
    """Chooses partitions for the records of one topic that have no key.

    `sticky_bytes`: the bytes that go to one partition before the next is chosen.
    """

    __slots__ = ("_load", "_produced_bytes", "_rng", "_sticky_bytes", "current")

    def __init__(self, sticky_bytes: int, rng: Randomness) -> None:
        self._sticky_bytes = max(1, sticky_bytes)
        self._rng = rng
        self._produced_bytes = 0
        self._load: tuple[tuple[int, ...], tuple[int, ...]] | None = None
        self.current: int | None = None

    def choose(self, available: Sequence[int], partition_count: int) -> int:
        """Return the current partition; choose a new one if there is none or it has lost its leader."""
        current = self.current
        if current is None or (available and current not in available):
            current = self._choose_next(available, partition_count)
        return current

    def on_appended(
        self, size_bytes: int, available: Sequence[int], partition_count: int, *, batch_is_ready: bool
    ) -> None:
        """Count bytes appended to the current partition; choose another one after `sticky_bytes`.

        A batch that is not ready yet may get up to twice the bytes, so that it is not sent half full.
        """
        self._produced_bytes += size_bytes
        enough = self._produced_bytes >= self._sticky_bytes
        if (enough and batch_is_ready) or self._produced_bytes >= 2 * self._sticky_bytes:
            self._choose_next(available, partition_count)

    def update_load(self, partitions: Sequence[int], queue_lengths: Sequence[int]) -> None:
        """Weight partitions by the lengths of their queues: a longer queue is chosen less often.

        With lengths 0, 3, 1 the weights are 4, 1, 3. Equal lengths give equal weights.
        """
        assert len(partitions) == len(queue_lengths)
        if len(partitions) < 2 or min(queue_lengths) == max(queue_lengths):
            self._load = None
            return
        ceiling = max(queue_lengths) + 1
        weights = tuple(accumulate(ceiling - length for length in queue_lengths))
        self._load = (weights, tuple(partitions))

    def _choose_next(self, available: Sequence[int], partition_count: int) -> int:
        self._produced_bytes = 0
        if self._load is not None:
            weights, partitions = self._load
            self.current = partitions[bisect_right(weights, self._rng.randrange(weights[-1]))]
        elif available:
            self.current = available[self._rng.randrange(len(available))]
        else:
            self.current = self._rng.randrange(partition_count)
        return self.current
