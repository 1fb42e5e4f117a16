"""Damaged copies of bytes: truncated at every byte, extended, flipped, and with wrong lengths."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

_INTERESTING = (
    b"\x00",
    b"\x01",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff\xff\xff",
    b"\x80\x00",
    b"\x81\x00",
)


def damaged_copies(data: bytes, seed: str, flips: int = 60) -> Iterator[bytes]:
    """Yield truncations at every byte (of short data), trailing bytes, and `flips` random changes."""
    random = Random(seed)
    cuts = range(len(data)) if len(data) < 400 else random.sample(range(len(data)), 400)
    for length in cuts:
        yield data[:length]
    yield data + b"\0"
    for _ in range(flips if data else 0):
        position = random.randrange(len(data))
        piece = random.choice((*_INTERESTING, bytes([random.randrange(256)])))
        yield data[:position] + piece + data[position + random.choice((1, len(piece))) :]
