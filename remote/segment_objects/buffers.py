"""Bytes that are handed on without being copied, and how they are read in full."""

from __future__ import annotations

from typing import TypeAlias

from remote.storage_manager import ReadableStream

Buffer: TypeAlias = bytes | memoryview


class ShortRead(Exception):
    """A stream that ended before all of its bytes had come."""

    def __init__(self, missing: int, wanted: int) -> None:
        super().__init__(f"{missing} of {wanted} bytes are missing")


def read_exactly(stream: ReadableStream, size: int) -> bytes:
    """The next `size` bytes of `stream`; ShortRead when it ends before."""
    first = stream.read(size) if size else b""
    if len(first) == size:
        return first
    parts, missing = [first], size - len(first)
    while missing and parts[-1]:
        parts.append(stream.read(missing))
        missing -= len(parts[-1])
    if missing:
        raise ShortRead(missing, size)
    return b"".join(parts)
