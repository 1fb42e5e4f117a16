"""Joins the retained batches of a window to the bytes that are written.

Adjacent batches that are unchanged are one view of the window: they are not copied if nothing else changes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidelog.protocol.batch import LOG_OVERHEAD, update_crc
from tidelog.protocol.compression import BytesLike
from tidelog.protocol.record_columns.header_columns import HeaderColumns, numbers_of, write_headers
from tidelog.protocol.record_columns.varints import Numbers
from tidelog.storage.compaction.batch_window import BatchWindow
from tidelog.storage.compaction.rebuilding import HEADER_SPACE, Rebuilding, RetainedBatch
from tidelog.storage.segment.segment import IndexedBatch


class RetainedBatches(NamedTuple):
    """Adjacent batches as they are to be written, and what the indexes of the segment need of each."""

    data: BytesLike
    batches: list[IndexedBatch]


class Joining:
    """The batches of a window from number `first` to `end` (exclusive), which may be replaced once each."""

    def __init__(self, window: BatchWindow, first: int, end: int) -> None:
        self._window = window
        self._first = first
        self._end = end
        self._sizes = (window.ends - window.starts)[first:end]
        self._max_timestamps = numbers_of(window.headers[first:end], "max_timestamp")
        self._is_retained = np.ones(end - first, dtype=np.bool_)
        self._replaced: dict[int, list[BytesLike]] = {}
        """The bytes of each batch that is not unchanged; none for a batch that is removed."""
        self._rebuilt: tuple[Numbers, HeaderColumns] | None = None
        """The numbers of the rebuilt batches, and their headers."""

    def replace(self, index: int, batch: RetainedBatch | None) -> None:
        """Replace the batch number `index` of the window; remove it if `batch` is None."""
        number = index - self._first
        if batch is None:
            self._replaced[number] = []
            self._is_retained[number] = False
            return
        self._replaced[number] = [batch.data]
        self._sizes[number] = len(batch.data)
        self._max_timestamps[number] = batch.header.max_timestamp

    def rebuild(self, indexes: Numbers, rebuilding: Rebuilding, numbers: Numbers) -> None:
        """Replace the batches `indexes` of the window by those with the `numbers` in `rebuilding`."""
        if not len(indexes):
            return
        places = indexes - self._first
        headers = rebuilding.headers(numbers)
        self._rebuilt = places, headers
        self._sizes[places] = headers["batch_length"] + LOG_OVERHEAD
        self._max_timestamps[places] = headers["max_timestamp"]
        for place, number in zip(places.tolist(), numbers.tolist(), strict=True):
            self._replaced[place] = [HEADER_SPACE, *rebuilding.runs(number)]

    def joined(self) -> RetainedBatches:
        """Return the retained batches."""
        parts = self._parts()
        data: BytesLike = parts[0] if len(parts) == 1 else bytearray().join(parts)
        if self._rebuilt is not None:
            self._write_headers(data, *self._rebuilt)
        of_part, retained = slice(self._first, self._end), self._is_retained
        base_offsets = numbers_of(self._window.headers[of_part], "base_offset")
        columns = (
            base_offsets,
            self._sizes - LOG_OVERHEAD,
            self._window.last_offsets[of_part],
            self._max_timestamps,
        )
        batches = list(map(IndexedBatch, *(column[retained].tolist() for column in columns)))
        return RetainedBatches(data, batches)

    def _parts(self) -> list[BytesLike]:
        window, parts = self._window, list[BytesLike]()
        view = memoryview(window.data)
        starts = window.starts[self._first : self._end].tolist()
        ends = window.ends[self._first : self._end].tolist()
        following = 0
        for number in sorted(self._replaced):
            if number > following:
                parts.append(view[starts[following] : ends[number - 1]])
            parts += self._replaced[number]
            following = number + 1
        if following < len(starts):
            parts.append(view[starts[following] : ends[-1]])
        return parts

    def _write_headers(self, data: BytesLike, places: Numbers, headers: HeaderColumns) -> None:
        """Write the headers of the rebuilt batches with their checksums."""
        assert isinstance(data, bytearray)
        ends = np.cumsum(self._sizes * self._is_retained)[places]
        starts = ends - self._sizes[places]
        write_headers(data, starts, headers)
        for start, size_bytes in zip(starts.tolist(), self._sizes[places].tolist(), strict=True):
            update_crc(data, start, size_bytes)
