"""Reading of streams that may return fewer bytes at a time than requested."""

from __future__ import annotations

from contextlib import closing
from typing import Final, Protocol, TypeAlias, TypeVar

from tidelog.remote.ports.storage_manager import ReadableStream, RemoteStorageError

_PIECE_BYTES: Final = 1 << 20

Piece: TypeAlias = bytes | memoryview

_P = TypeVar("_P", bytes, bytes | memoryview)
_P_co = TypeVar("_P_co", covariant=True)


class PieceStream(Protocol[_P_co]):
    """Bytes that are read once from the start, as views where no copy is needed."""

    def read(self, size: int, /) -> _P_co:
        """Return the next bytes, at most `size`; empty at the end."""
        ...


class ShortRead(Exception):
    """A stream ended before all of its bytes had arrived."""

    def __init__(self, missing: int, requested: int) -> None:
        super().__init__(f"{missing} of {requested} bytes are missing")


def read_up_to(stream: PieceStream[_P], size: int) -> _P:
    """Return the next `size` bytes; fewer only if the stream ends."""
    data = stream.read(size)
    if len(data) >= size or not data:
        return data
    parts = [data]
    missing = size - len(data)
    while missing and (data := stream.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def read_exactly(stream: PieceStream[_P], size: int) -> _P:
    """Return the next `size` bytes of `stream`. Errors: ShortRead if it ends earlier."""
    data = read_up_to(stream, size)
    if len(data) < size:
        raise ShortRead(size - len(data), size)
    return data


def read_all(stream: ReadableStream, size_max: int) -> bytes:
    """Return all bytes of the stream, and close it. Errors: RemoteStorageError for more than `size_max`."""
    parts = []
    total = 0
    with closing(stream):
        while data := stream.read(_PIECE_BYTES):
            parts.append(data)
            total += len(data)
            if total > size_max:
                raise RemoteStorageError(f"an object is longer than {size_max} bytes")
    return b"".join(parts)
