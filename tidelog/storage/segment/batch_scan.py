"""Iterating over the batches of a segment file: by headers only, or verifying every byte.

I/O: one pread per chunk. `headers` skips a batch that is longer than a chunk, `checked_batches` reads it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.protocol.batch import BATCH_OVERHEAD, LOG_OVERHEAD, BatchHeader, crc_is_valid, read_header
from tidelog.protocol.errors import DecodeError
from tidelog.storage.disk.errors import CorruptFile
from tidelog.storage.disk.files import File

SHORT_SCAN_BYTES: Final = 8 * 1024
LONG_SCAN_BYTES: Final = 256 * 1024
VERIFIED_SCAN_BYTES: Final = 1024 * 1024
MAGIC_AT: Final = 16

_OLD_MESSAGE: Final = struct.Struct(">iI")
_OLD_MESSAGE_BYTES_MIN: Final = 14


class CorruptLog(CorruptFile):
    """A segment has bytes at `position` that are not a complete, valid batch."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(path, f"at byte {position}: {reason}")
        self.position = position


class UnsupportedFormat(CorruptFile):
    """A segment has valid messages of an unsupported format, older than 2; they are never removed."""


def headers(
    file: File, start: int, end: int, chunk_bytes: int = SHORT_SCAN_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch that starts in [`start`, `end`); `start` is a batch's.

    Bounds: keeps one chunk of `chunk_bytes` in memory.
    Errors: CorruptLog for bytes that are not a batch, or a batch that reaches beyond `end`.
    """
    position = start
    chunk, chunk_start = b"", start
    while position < end:
        at = position - chunk_start
        if at + BATCH_OVERHEAD > len(chunk):
            chunk = file.pread(min(chunk_bytes, end - position), position)
            chunk_start, at = position, 0
        try:
            header = read_header(chunk, at)
        except DecodeError as error:
            raise CorruptLog(file.path, position, str(error)) from error
        following = position + header.size_bytes
        if following > end:
            raise CorruptLog(
                file.path, position, f"a batch of {header.size_bytes} bytes, only {end - position} are there"
            )
        yield position, header
        position = following


class CheckedBatch(NamedTuple):
    """A batch with a valid checksum, with its bytes (valid until the next one is requested)."""

    position: int
    header: BatchHeader
    data: memoryview


def checked_batches(
    file: File, start: int = 0, chunk_bytes: int = VERIFIED_SCAN_BYTES
) -> Iterator[CheckedBatch]:
    """Yield every batch of the file from the boundary `start` on, verified, up to the first damage.

    Bounds: keeps one chunk in memory, or one batch if it is longer.
    Errors: CorruptLog at the first bytes that are not a valid batch; UnsupportedFormat for magic 0 and 1.
    """
    size = file.size()
    position = start
    chunk, chunk_start = b"", start
    while position < size:
        at = position - chunk_start
        if at + BATCH_OVERHEAD > len(chunk):
            chunk, chunk_start, at = file.pread(chunk_bytes, position), position, 0
        header = _read_header_of(file, chunk, at, position)
        end = position + header.size_bytes
        if end > size:
            raise CorruptLog(
                file.path, position, f"a batch of {header.size_bytes} bytes, only {size - position} are there"
            )
        if at + header.size_bytes > len(chunk):
            chunk = file.pread(max(chunk_bytes, header.size_bytes), position)
            chunk_start, at = position, 0
        if not crc_is_valid(chunk, at, header):
            raise CorruptLog(file.path, position, f"checksum {header.crc:#010x} is wrong")
        yield CheckedBatch(position, header, memoryview(chunk)[at : at + header.size_bytes])
        position = end


def _read_header_of(file: File, chunk: bytes, at: int, position: int) -> BatchHeader:
    try:
        return read_header(chunk, at)
    except DecodeError as error:
        if _is_old_format(file, position):
            raise UnsupportedFormat(
                file.path, f"at byte {position}: messages of format {chunk[at + MAGIC_AT]}, only 2 is read"
            ) from error
        raise CorruptLog(file.path, position, str(error)) from error


def _is_old_format(file: File, position: int) -> bool:
    """Return whether `position` has a valid message of Kafka before 0.11: CRC-32 of all from its magic on."""
    head = file.pread(MAGIC_AT + 1, position)
    if len(head) <= MAGIC_AT or head[MAGIC_AT] > 1:
        return False
    length, crc = _OLD_MESSAGE.unpack_from(head, 8)
    if not _OLD_MESSAGE_BYTES_MIN <= length <= file.size() - position - LOG_OVERHEAD:
        return False
    return bool(zlib.crc32(file.pread(length - 4, position + MAGIC_AT)) == crc)
