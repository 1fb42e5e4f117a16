"""Streams with exactly the announced number of bytes, and sources that are read in parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from tidelog.remote.objects.stores.port import Content, Source, failure
from tidelog.remote.ports.storage_manager import RemoteStorageError

PIECE_BYTES_MAX = 1024 * 1024

Part: TypeAlias = bytes | memoryview


class ExactStream(ABC):
    """A stream of a known number of bytes: `read(n)` returns n of them unless fewer remain.

    Errors: RemoteStorageError if the store ends before all bytes were read.
    """

    piece_bytes_max = PIECE_BYTES_MAX
    """The maximum size of a `_next` call; pieces are joined, which costs a copy."""

    def __init__(self, store: str, key: str, length: int) -> None:
        self._store = store
        self._key = key
        self._remaining = length

    @abstractmethod
    def _next(self, size: int) -> bytes:
        """Return between 1 and `size` of the next bytes; empty only if the store has no more."""

    @abstractmethod
    def close(self) -> None:
        """Stop reading; bytes that were not read are not fetched."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` of the next bytes, all if `size` is negative; empty at the end."""
        missing = self._remaining if size < 0 else min(size, self._remaining)
        pieces = []
        while missing:
            piece = self._next(min(missing, self.piece_bytes_max))
            if not piece:
                raise failure(
                    self._store, "read", self._key, f"the stream ended {self._remaining} bytes too early"
                )
            pieces.append(piece)
            missing -= len(piece)
            self._remaining -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


class Parts:
    """The content of a put, divided into parts; only one part of a source is in memory.

    Invariant: `taken_bytes` is the number of bytes that `next_part` has returned so far.
    Errors: RemoteStorageError if the source has fewer or more bytes than announced.
    """

    def __init__(self, store: str, key: str, content: Content, size: int | None) -> None:
        self._store = store
        self._key = key
        self._view: memoryview | None = None
        self._source: Source | None = None
        if isinstance(content, (bytes, bytearray, memoryview)):
            self._view = memoryview(content).cast("B")
            if size is not None and size != len(self._view):
                raise self._wrong_size(len(self._view), size)
            size = len(self._view)
        else:
            self._source = content
        self.size_bytes = size
        self.taken_bytes = 0

    def next_part(self, part_bytes: int) -> Part:
        """Return the next `part_bytes`, fewer at the end, empty after it; of a source, the type is bytes."""
        part: Part
        if self._view is None:
            part = self._from_source(part_bytes)
        else:
            part, self._view = self._view[:part_bytes], self._view[part_bytes:]
        self.taken_bytes += len(part)
        return part

    def _from_source(self, part_bytes: int) -> bytes:
        """Return a part of the source.

        A part that the file returns in one piece is returned without a copy. Joining bytes releases the
        interpreter lock; copying some megabytes would hold it, and block the event loop, for milliseconds.
        """
        assert self._source is not None
        pieces: list[bytes] = []
        missing = part_bytes
        while missing > 0:
            try:
                piece = self._source.read(missing)
            except Exception as error:
                raise _SourceFailed(error) from error
            if not piece:
                break
            pieces.append(piece)
            missing -= len(piece)
        announced = self.size_bytes
        taken = self.taken_bytes + part_bytes - missing
        if announced is not None and (taken > announced or (missing > 0 and taken < announced)):
            raise self._wrong_size(taken, announced)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _wrong_size(self, actual: int, announced: int) -> Exception:
        text = f"the content has {actual} bytes or more; announced were {announced}"
        return failure(self._store, "put", self._key, text)


class _SourceFailed(Exception):
    """An error that a source raised, distinguished from errors of the store."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


@contextmanager
def put_errors(store: str, key: str, *errors: type[Exception]) -> Iterator[None]:
    """Convert `errors` of a put to RemoteStorageError; errors of the source are raised unchanged."""
    try:
        yield
    except _SourceFailed as failed:
        raise failed.cause from None
    except RemoteStorageError:
        raise
    except errors as error:
        raise failure(store, "put", key, error) from error
