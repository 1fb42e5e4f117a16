"""The stored form of a log file: read chunk by chunk, transformed, and counted during the upload.

One chunk and its transformed form are in memory at a time. After the last read, `chunk_index` returns the
positions of all chunks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import BinaryIO, Final

from tidelog.protocol.batch import read_header
from tidelog.protocol.compression import Compression
from tidelog.protocol.errors import DecodeError
from tidelog.remote.objects.layout.chunk_index import (
    ChunkIndex,
    FixedChunkIndex,
    VariableChunkIndex,
    chunk_count,
)
from tidelog.remote.objects.layout.pieces import Buffer
from tidelog.remote.objects.layout.transform import Transform
from tidelog.remote.ports.storage_manager import IndexType

_FIRST_BATCH_BYTES: Final = 61
"""The size of a record batch's header."""


class TransformedLog:
    """The stored form of a log file, as a source for ObjectStore.put.

    Bounds: one chunk and its transformed form in memory.
    Errors: ValueError from `read` if the file does not have `file_size` bytes; OSError.
    """

    def __init__(self, file: BinaryIO, file_size: int, chunk_size: int, transform: Transform) -> None:
        self._file = file
        self._file_size = file_size
        self._chunk_size = chunk_size
        self._transform = transform
        self._sizes: list[int] = []
        self._read_bytes = 0
        self._rest: memoryview = memoryview(b"")

    @property
    def size(self) -> int | None:
        """The size of the stored form in bytes; None if it is known only after the upload."""
        full, rest = divmod(self._file_size, self._chunk_size)
        sizes = [self._transform.transformed_size(size) for size in (self._chunk_size, rest)]
        if sizes[0] is None or sizes[1] is None:
            return None
        return full * sizes[0] + (sizes[1] if rest else 0)

    @property
    def stored_bytes(self) -> int:
        """The size of the stored form in bytes after all of it was read."""
        return sum(self._sizes)

    def read(self, size: int, /) -> bytes:
        """Return the next bytes of the stored form, at most `size`; empty at the end."""
        if not self._rest:
            chunk = self._file.read(self._chunk_size)
            self._check_size(len(chunk))
            if not chunk:
                return b""
            stored: Buffer = self._transform.apply(chunk)
            self._sizes.append(len(stored))
            self._rest = memoryview(stored)
        returned, self._rest = self._rest[:size], self._rest[size:]
        whole = returned.obj
        # A chunk that is returned as a whole is not copied.
        return whole if isinstance(whole, bytes) and len(whole) == len(returned) else bytes(returned)

    def chunk_index(self) -> ChunkIndex:
        """Return the positions of the chunks; all chunks must have been read."""
        assert self._read_bytes == self._file_size and not self._rest, (self._read_bytes, self._file_size)
        count = chunk_count(self._chunk_size, self._file_size)
        assert len(self._sizes) == count, (len(self._sizes), count)
        transformed_size = self._transform.transformed_size(self._chunk_size)
        if transformed_size is None:
            return VariableChunkIndex(self._chunk_size, self._file_size, self._sizes)
        last = self._sizes[-1] if self._sizes else 0
        return FixedChunkIndex(self._chunk_size, self._file_size, transformed_size, last)

    def _check_size(self, chunk_bytes: int) -> None:
        self._read_bytes += chunk_bytes
        is_short = not chunk_bytes and self._read_bytes < self._file_size
        if is_short or self._read_bytes > self._file_size:
            raise ValueError(f"the log file has {self._read_bytes} bytes, expected are {self._file_size}")


def plain_chunk_index(file_size: int, chunk_size: int) -> FixedChunkIndex:
    """Return the chunks of a log that is stored without a transform."""
    last = file_size - max(0, chunk_count(chunk_size, file_size) - 1) * chunk_size
    return FixedChunkIndex(chunk_size, file_size, chunk_size, last)


def is_compressed(file_head: bytes) -> bool:
    """Return whether the first batch of a log is compressed.

    `file_head` contains the first bytes of the log. Errors: DecodeError if they are not a batch of this
    format.
    """
    if len(file_head) < _FIRST_BATCH_BYTES:
        raise DecodeError(f"a log of {len(file_head)} bytes has no complete batch header")
    return read_header(file_head).compression is not Compression.NONE


def read_head(file: BinaryIO) -> bytes:
    """Return the bytes that `is_compressed` needs, and seek to the beginning of the file."""
    head = file.read(_FIRST_BATCH_BYTES)
    file.seek(0)
    return head


def join_indexes(
    indexes: Mapping[IndexType, bytes], order: Iterable[IndexType], transform: Transform
) -> tuple[bytes, dict[IndexType, int]]:
    """Return the object of all indexes, and the stored size of each; an empty index stays empty."""
    stored = {
        index_type: transform.apply(indexes[index_type]) if indexes[index_type] else b""
        for index_type in order
        if index_type in indexes
    }
    return b"".join(stored.values()), {index_type: len(data) for index_type, data in stored.items()}
