"""Hashes of 128 bits for the keys of many records at once; the offset map stores them instead of keys.

A key of up to SHORT_KEY_BYTES_MAX bytes is read as characters of 32 bits, padded with zeros, and its length
is one more character. Each of four lanes is the upper half of `m + sum(m[i] * character[i])` modulo 2**64
with its own random multipliers: a strongly universal family. A longer key is first reduced to 16 bytes by
BLAKE2b with a random key; its length distinguishes it from every short key.

Collisions: two different short keys have the same hash with a probability of 2**-128, whatever the keys are,
because the multipliers are random in each round and unknown to clients. With five million keys, two of them
collide in a round with a probability of 4e-26. The consequence would be that compaction removes the latest
record of one of these two keys, as in Apache Kafka, which uses MD5.

Source: Lemire and Kaser, "Strongly universal string hashing is fast" (2014): Multilinear.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.record_columns.varints import Numbers

Words: TypeAlias = NDArray[np.uint64]

SHORT_KEY_BYTES_MAX: Final = 128
_WORD_BYTES: Final = 8
_DIGEST_BYTES: Final = 16
_LANES: Final = 4
_MULTIPLIERS: Final = SHORT_KEY_BYTES_MAX // 4 + 2
_BLAKE_KEY_BYTES: Final = 64
SECRET_BYTES: Final = _LANES * _MULTIPLIERS * _WORD_BYTES + _BLAKE_KEY_BYTES
_LOW_HALF: Final = np.uint64(2**32 - 1)
_HALF_BITS: Final = np.uint64(32)
_KEPT_BYTES: Final = np.array([2 ** (8 * count) - 1 for count in range(_WORD_BYTES + 1)], dtype=np.uint64)
"""The masks of the first 0 to 8 bytes of a word."""


class KeyHashes(NamedTuple):
    """The hashes of keys: two words of 64 bits each."""

    high: Words
    low: Words

    def rows(self, selected: slice | Numbers) -> KeyHashes:
        """Return the hashes of the selected keys."""
        return KeyHashes(self.high[selected], self.low[selected])


class KeyHasher:
    """Computes hashes with one `secret` of SECRET_BYTES random bytes; each round needs its own."""

    __slots__ = ("_blake_key", "_multipliers")

    def __init__(self, secret: bytes) -> None:
        assert len(secret) == SECRET_BYTES, f"{len(secret)} bytes of secret"
        self._blake_key = secret[:_BLAKE_KEY_BYTES]
        words = np.frombuffer(secret, dtype="<u8", offset=_BLAKE_KEY_BYTES).astype(np.uint64)
        self._multipliers = words.reshape(_MULTIPLIERS, _LANES)

    def hashes(self, data: bytes, starts: Numbers, lengths: Numbers) -> KeyHashes:
        """Return the hash of each key; `data` must have eight bytes after the last key."""
        is_long = lengths > SHORT_KEY_BYTES_MAX
        if not is_long.any():
            return self._short(data, starts, lengths, lengths)
        long = np.flatnonzero(is_long)
        digests = bytearray()
        for start, length in zip(starts[long].tolist(), lengths[long].tolist(), strict=True):
            key = memoryview(data)[start : start + length]
            digests += blake2b(key, digest_size=_DIGEST_BYTES, key=self._blake_key).digest()
        hashes = self._short(data, starts, np.where(is_long, 0, lengths), lengths)
        digest_starts = np.arange(0, len(digests), _DIGEST_BYTES, dtype=np.int64)
        digest_lengths = np.full(len(long), _DIGEST_BYTES, dtype=np.int64)
        digests += bytes(_WORD_BYTES)
        of_long = self._short(bytes(digests), digest_starts, digest_lengths, lengths[long])
        hashes.high[long], hashes.low[long] = of_long
        return hashes

    def _short(self, data: bytes, starts: Numbers, lengths: Numbers, key_lengths: Numbers) -> KeyHashes:
        """Return the hashes of `lengths` bytes from `starts`, which represent keys of `key_lengths`."""
        multipliers = self._multipliers
        # An element starts at each byte.
        words: Words = np.ndarray((len(data) - _WORD_BYTES + 1,), dtype="<u8", buffer=data, strides=(1,))
        own_lengths = key_lengths.astype(np.uint64)
        lanes = [own_lengths * multipliers[1, lane] + multipliers[0, lane] for lane in range(_LANES)]
        for number in range(-(-int(lengths.max(initial=0)) // _WORD_BYTES)):
            remaining = lengths - number * _WORD_BYTES
            rows: slice | Numbers = slice(None)
            if remaining.min() <= 0:
                rows = np.flatnonzero(remaining > 0)
                remaining = remaining[rows]
            characters = words[starts[rows] + number * _WORD_BYTES]
            if remaining.min() < _WORD_BYTES:
                characters &= _KEPT_BYTES[np.minimum(remaining, _WORD_BYTES)]
            first, second = characters & _LOW_HALF, characters >> _HALF_BITS
            for lane, total in enumerate(lanes):
                total[rows] += first * multipliers[2 * number + 2, lane]
                total[rows] += second * multipliers[2 * number + 3, lane]
        halves = [total >> _HALF_BITS for total in lanes]
        return KeyHashes(halves[0] << _HALF_BITS | halves[1], halves[2] << _HALF_BITS | halves[3])
