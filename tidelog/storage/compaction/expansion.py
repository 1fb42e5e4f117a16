"""The expanded records of the batches of a window, within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.protocol.batch import ATTRIBUTE_COMPRESSION_MASK, BATCH_OVERHEAD, BatchHeader
from tidelog.protocol.compression import BytesLike, Compression
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.record import DEFAULT_MAX_DECOMPRESSED_BYTES, RECORD_BYTES_MIN, read_payload
from tidelog.protocol.record_columns.header_columns import numbers_of
from tidelog.protocol.record_columns.key_columns import Payloads
from tidelog.protocol.record_columns.varints import Numbers
from tidelog.storage.compaction.batch_window import BatchWindow
from tidelog.storage.log.record_bounds import RECORDS_MAX

EXPANDED_BYTES_MAX: Final = DEFAULT_MAX_DECOMPRESSED_BYTES
_PART_BYTES: Final = 4 * 1024 * 1024
_PART_RECORDS: Final = 128 * 1024


class WindowPart(NamedTuple):
    """The batches of a window from `first` to `end` (exclusive), with the records of some of them."""

    first: int
    end: int
    indexes: Numbers
    """The batches whose records are needed."""
    payloads: Payloads | None
    """Their records; None if there are none."""


def expanded_parts(window: BatchWindow, needs_records: NDArray[np.bool_]) -> Iterator[WindowPart]:
    """Yield the window in parts, each with the records of the batches that need them.

    Bounds: a part has at most about _PART_BYTES of expanded records and _PART_RECORDS, or one batch.
    Errors: DecodeError for records that cannot be expanded, that expand beyond EXPANDED_BYTES_MAX, or that
    are more than RECORDS_MAX in a batch: columns take many times their bytes.
    """
    indexes = np.flatnonzero(needs_records)
    headers = window.headers[indexes]
    counts = numbers_of(headers, "record_count")
    is_compressed = headers["attributes"] & ATTRIBUTE_COMPRESSION_MASK != 0
    if is_compressed.any() or counts.sum() > _PART_RECORDS:
        yield from _small_parts(window, indexes.tolist())
        return
    starts, ends = window.starts[indexes] + BATCH_OVERHEAD, window.ends[indexes]
    if (counts * RECORD_BYTES_MIN > ends - starts).any():
        yield from _small_parts(window, indexes.tolist())  # raises the error
        return
    payloads = Payloads(window.data, starts, ends, counts, numbers_of(headers, "base_offset"))
    yield WindowPart(0, len(window.starts), indexes, payloads if len(indexes) else None)


def _small_parts(window: BatchWindow, indexes: list[int]) -> Iterator[WindowPart]:
    first, part = 0, _CollectedRecords()
    for index in indexes:
        header = window.header(index)
        part.add(index, header, _expanded(header, window.batch(index)))
        if part.is_full:
            yield part.complete(first, index + 1)
            first, part = index + 1, _CollectedRecords()
    if first < len(window.starts):
        yield part.complete(first, len(window.starts))


class _CollectedRecords:
    def __init__(self) -> None:
        self._indexes: list[int] = []
        self._headers: list[BatchHeader] = []
        self._records: list[BytesLike] = []
        self._size_bytes = self._record_count = 0

    def add(self, index: int, header: BatchHeader, records: BytesLike) -> None:
        self._indexes.append(index)
        self._headers.append(header)
        self._records.append(records)
        self._size_bytes += len(records)
        self._record_count += header.record_count

    @property
    def is_full(self) -> bool:
        return self._size_bytes >= _PART_BYTES or self._record_count >= _PART_RECORDS

    def complete(self, first: int, end: int) -> WindowPart:
        payloads = None
        if self._headers:
            counts = np.array([header.record_count for header in self._headers], dtype=np.int64)
            base_offsets = np.array([header.base_offset for header in self._headers], dtype=np.int64)
            payloads = Payloads.joined(self._records, counts, base_offsets)
        return WindowPart(first, end, np.array(self._indexes, dtype=np.int64), payloads)


def _expanded(header: BatchHeader, batch: memoryview) -> BytesLike:
    """Return the expanded records of a batch; a view if they are not compressed."""
    if header.record_count > RECORDS_MAX:
        raise DecodeError(
            f"{header.record_count} records in the batch at offset {header.base_offset}, "
            f"at most {RECORDS_MAX} are compacted"
        )
    if header.compression is not Compression.NONE:
        return read_payload(batch, 0, header, EXPANDED_BYTES_MAX)
    payload = batch[BATCH_OVERHEAD:]
    if header.record_count * RECORD_BYTES_MIN > len(payload):
        raise DecodeError(
            f"{header.record_count} records of the batch at offset {header.base_offset} "
            f"do not fit in {len(payload)} bytes"
        )
    return payload
