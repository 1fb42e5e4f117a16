"""Reads segments in windows: many complete batches in one buffer, verified, with their headers as columns.

Bounds: one buffer of the requested size, or one batch if it is longer.
I/O: one pread for each window, two if it begins with a batch that is longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

import numpy as np
from crc32c import crc32c

from tidelog.base.dataclass import dataclass
from tidelog.protocol.batch import ATTRIBUTES_AT, BATCH_OVERHEAD, LOG_OVERHEAD, MAGIC, BatchHeader
from tidelog.protocol.record_columns.header_columns import (
    HeaderColumns,
    header_at,
    numbers_of,
    read_headers,
)
from tidelog.protocol.record_columns.varints import PADDING, Numbers
from tidelog.storage.disk.files import File
from tidelog.storage.segment.batch_scan import checked_batches

_LENGTH: Final = Struct(">8xi")


@dataclass(frozen=True, slots=True)
class BatchWindow:
    """Adjacent batches with valid checksums, from `starts` to `ends` in `data`, which ends with padding."""

    data: bytes
    starts: Numbers
    ends: Numbers
    headers: HeaderColumns

    @property
    def size_bytes(self) -> int:
        """The size of the batches."""
        return int(self.ends[-1])

    @property
    def last_offsets(self) -> Numbers:
        """The last offset of each batch, even if compaction has removed the record."""
        return numbers_of(self.headers, "base_offset") + numbers_of(self.headers, "last_offset_delta")

    def header(self, index: int) -> BatchHeader:
        """Return the header of one batch."""
        return header_at(self.headers, index)

    def batch(self, index: int) -> memoryview:
        """Return the bytes of one batch."""
        return memoryview(self.data)[int(self.starts[index]) : int(self.ends[index])]


def read_windows(file: File, start: int, window_bytes: int) -> Iterator[BatchWindow]:
    """Yield all batches of the file from the boundary `start` on, in windows of about `window_bytes`.

    Errors: those of `checked_batches`, before the batches of the same window are returned.
    """
    size, position = file.size(), start
    while position < size:
        data = file.pread(window_bytes, position)
        ends = _batch_ends(data)
        if not ends:
            data = file.pread(_size_of_first(file, data, position) + len(PADDING), position)
            ends = _batch_ends(data)
        if ends and len(data) - ends[-1] < len(PADDING):
            data += PADDING
        window = _window(data, ends) if ends else None
        if window is None:
            _raise_damage(file, position, window_bytes)
            raise AssertionError(f"{file.path}: valid batches at byte {position} were rejected")
        yield window
        position += window.size_bytes


def _batch_ends(data: bytes) -> list[int]:
    """Return the ends of the complete batches according to their lengths, up to the first invalid length."""
    ends: list[int] = []
    start, available, length_at = 0, len(data), _LENGTH.unpack_from
    while start + BATCH_OVERHEAD <= available:
        end = start + LOG_OVERHEAD + length_at(data, start)[0]
        if not start + BATCH_OVERHEAD <= end <= available:
            break
        ends.append(end)
        start = end
    return ends


def _size_of_first(file: File, data: bytes, position: int) -> int:
    """Return the size of a batch that is not complete in `data`. Errors: those of `checked_batches`."""
    size: int = _LENGTH.unpack_from(data)[0] + LOG_OVERHEAD if len(data) >= BATCH_OVERHEAD else 0
    if not len(data) < size <= file.size() - position:
        _raise_damage(file, position, BATCH_OVERHEAD)
    return size


def _window(data: bytes, ends: list[int]) -> BatchWindow | None:
    """Return the window of the batches that end at `ends`; None if one of them is damaged."""
    starts = np.array([0, *ends[:-1]], dtype=np.int64)
    headers = read_headers(data, starts)
    is_bad = (headers["magic"] != MAGIC) | (headers["last_offset_delta"] < 0) | (headers["record_count"] < 0)
    if is_bad.any():
        return None
    view, start = memoryview(data), 0
    for end, crc in zip(ends, headers["crc"].tolist(), strict=True):
        if crc32c(view[start + ATTRIBUTES_AT : end]) != crc:
            return None
        start = end
    return BatchWindow(data, starts, np.array(ends, dtype=np.int64), headers)


def _raise_damage(file: File, position: int, chunk_bytes: int) -> None:
    for _ in checked_batches(file, position, chunk_bytes):
        pass
