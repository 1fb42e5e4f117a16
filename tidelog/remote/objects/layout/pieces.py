"""Bytes that are passed on without being copied."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Final, TypeAlias

from tidelog.remote.ports.storage_manager import ReadableStream
from tidelog.remote.ports.streams import ShortRead

Buffer: TypeAlias = bytes | memoryview

PIECE_BYTES: Final = 4 * 1024 * 1024
"""The number of bytes that are read from a stream at a time if the pieces are not joined.

It is the default size of a chunk: a slice of one piece is a view, a slice of two pieces is a copy.
"""


class Pieces:
    """Bytes in the pieces that a store returned, which are never joined as a whole."""

    __slots__ = ("_ends", "parts")

    def __init__(self, parts: list[Buffer]) -> None:
        self.parts = parts
        self._ends = list(accumulate(map(len, parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def slice(self, start: int, end: int) -> Buffer:
        """Return the bytes from `start` to `end` (exclusive): a view of one piece, else a copy."""
        assert 0 <= start <= end <= len(self), (start, end, len(self))
        views = []
        number = bisect_right(self._ends, start)
        while start < end:
            begin = self._ends[number] - len(self.parts[number])
            views.append(memoryview(self.parts[number])[start - begin : end - begin])
            start = self._ends[number]
            number += 1
        if len(views) == 1:
            return views[0]
        return b"".join(views)


def read_pieces(stream: ReadableStream, size: int) -> Pieces:
    """Return the next `size` bytes of `stream` in the pieces that it returns.

    Errors: ShortRead if the stream ends earlier.
    """
    parts: list[Buffer] = []
    missing = size
    while missing:
        part = stream.read(min(missing, PIECE_BYTES))
        if not part:
            raise ShortRead(missing, size)
        parts.append(part)
        missing -= len(part)
    return Pieces(parts)
