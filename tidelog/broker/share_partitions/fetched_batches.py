"""The batches of fetched records: their offsets, without reading the records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tidelog.broker.share_partitions.acquisition import AcquiredRecords, FetchedBatch
from tidelog.protocol.batch import BATCH_OVERHEAD, BatchHeader, read_header
from tidelog.storage.segment.file_slice import FileSlice
from tidelog.storage.segment.txn_index import AbortedTransaction

Records = bytes | memoryview | FileSlice

_BLOCK_BYTES: Final = 16 * 1024
"""The number of bytes that are read at once: the headers of many small batches, or one of a large batch."""


class FetchedBatches:
    """Iterates over the batches of fetched records, and keeps the position of each.

    Only as many headers are read as are requested. I/O: reads of the file, mostly from the page cache.
    """

    def __init__(self, records: Records, aborted: Sequence[AbortedTransaction] | None) -> None:
        self._records = records
        self._aborted = aborted or ()
        self._positions: list[tuple[int, int, int]] = []
        """Position, first offset and end offset of each batch that was read."""
        self._position = 0
        self._block = b""
        self._block_at = 0

    def __iter__(self) -> Iterator[FetchedBatch]:
        size_bytes = _length(self._records)
        while self._position + BATCH_OVERHEAD <= size_bytes:
            header = self._header_at(self._position)
            position = self._position
            self._position += header.size_bytes
            self._positions.append((position, header.base_offset, header.next_offset))
            yield FetchedBatch(header.base_offset, header.next_offset, self._is_aborted(header))

    def part_with(self, acquired: Sequence[AcquiredRecords]) -> Records:
        """Return the batches that contain `acquired`, which must be among those that were read."""
        first, last = acquired[0].first_offset, acquired[-1].last_offset
        begin = max(position for position, base, _ in self._positions if base <= first)
        end = self._position
        for position, base, _ in reversed(self._positions):
            if base <= last:
                break
            end = position
        end = min(end, _length(self._records))
        records = self._records
        if isinstance(records, FileSlice):
            return FileSlice(records.file, records.position + begin, end - begin, records.opened)
        return records[begin:end]

    def _header_at(self, position: int) -> BatchHeader:
        records = self._records
        if not isinstance(records, FileSlice):
            return read_header(records, position)
        begin = position - self._block_at
        if begin + BATCH_OVERHEAD > len(self._block) or not self._block:
            length = min(_BLOCK_BYTES, records.length - position)
            self._block = FileSlice(records.file, records.position + position, length, records.opened).read()
            self._block_at, begin = position, 0
        return read_header(self._block, begin)

    def _is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the records of a batch belong to a transaction that was aborted."""
        if not self._aborted or not header.is_transactional or header.is_control:
            return False
        return any(
            each.producer_id == header.producer_id
            and each.first_offset <= header.base_offset <= each.last_offset
            for each in self._aborted
        )


def _length(records: Records) -> int:
    return records.length if isinstance(records, FileSlice) else len(records)
