"""Reading what a storage manager hands out: a stream may give fewer bytes at a time than it is asked for."""

from __future__ import annotations

from contextlib import closing
from typing import Final

from tidelog.remote.ports.storage_manager import ReadableStream, RemoteStorageError

_PIECE_BYTES: Final = 1 << 20


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


def read_up_to(stream: ReadableStream, size: int) -> bytes:
    """The next `size` bytes; fewer only where the stream ends."""
    data = stream.read(size)
    if len(data) >= size or not data:
        return data
    parts = [data]
    missing = size - len(data)
    while missing and (data := stream.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def read_all(stream: ReadableStream, size_max: int) -> bytes:
    """The whole stream, which is closed. Errors: RemoteStorageError for more than `size_max` bytes."""
    parts = []
    total = 0
    with closing(stream):
        while data := stream.read(_PIECE_BYTES):
            parts.append(data)
            total += len(data)
            if total > size_max:
                raise RemoteStorageError(f"an object is longer than {size_max} bytes")
    return b"".join(parts)
