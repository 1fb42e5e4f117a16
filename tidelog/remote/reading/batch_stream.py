"""Extraction of complete batches from the bytes of a remote segment, by their headers only.

I/O: blocks, in pieces of at most PIECE_BYTES until the first batch is found. Bounds: the requested bytes or
one batch, plus one piece.
Errors: DamagedSegment if the bytes cannot be a batch of the segment, ShortSegment if the stream ends before
the segment does; RemoteStorageError.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.protocol.batch import ATTRIBUTES_AT, BATCH_OVERHEAD, LOG_OVERHEAD, MAGIC
from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import DamagedSegment, RemoteStorageError
from tidelog.remote.ports.streams import Piece, PieceStream, read_up_to

PIECE_BYTES: Final = 256 * 1024

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta.
_HEAD: Final = struct.Struct(">qiib4x2xi")
# Base offset, length, CRC.
_CHECKSUM_HEAD: Final = struct.Struct(">qi5xI")


class ShortSegment(RemoteStorageError):
    """Remote storage returned fewer bytes of a segment than it has."""


class BatchSpan(NamedTuple):
    """A batch: its position in the segment, its size in bytes, and its first and last offset."""

    position: int
    size_bytes: int
    base_offset: Offset
    last_offset: Offset


class BatchStream:
    """The batches of `metadata`'s segment from `position`, at which a batch must start.

    `indexed_offset` is the offset that an index has for this position, so that the batch must begin at or
    below it: otherwise records before the batch would be skipped. At the segment's start there may be none.
    `name` returns the name of the segment in errors.
    """

    def __init__(
        self,
        metadata: RemoteLogSegmentMetadata,
        stream: PieceStream[Piece],
        position: int,
        indexed_offset: Offset,
        name: Callable[[], str],
    ) -> None:
        self._metadata = metadata
        self._stream = stream
        self._start = position
        self._indexed_offset = indexed_offset
        self._name = name
        self._buffer: Piece = b""
        self._buffer_position = position
        self._next_position = position
        self._last_offset = metadata.start_offset - 1
        self._skipped: BatchSpan | None = None
        self._skipped_is_intact: bool | None = None

    def first_reaching(self, offset: Offset, first_piece_bytes: int) -> BatchSpan | None:
        """Return the first batch whose last offset is at or above `offset`; None if the stream ends before.

        `first_piece_bytes` is the size of the first read. The batches before it are skipped by their headers.
        If no batch contains `offset`, the one before it is verified, as a damaged last offset would hide
        records. Errors: DamagedSegment.
        """
        piece_bytes = max(first_piece_bytes, BATCH_OVERHEAD)
        while True:
            index = self._next_position - self._buffer_position
            if index + BATCH_OVERHEAD > len(self._buffer):
                if not self._read_next_header(index, piece_bytes):
                    if offset <= self._metadata.end_offset:
                        self._check_skipped()
                    return None
                piece_bytes, index = PIECE_BYTES, 0
            span = self._span_at(self._buffer, index, self._next_position)
            if span.last_offset >= offset:
                if span.base_offset > offset:
                    self._check_skipped()
                return span
            self._last_offset = span.last_offset
            self._skipped, self._skipped_is_intact = span, None
            self._next_position += span.size_bytes

    def data_from(self, position: int, size: int) -> memoryview:
        """Return up to `size` bytes from `position`, which has been read; fewer at the end of the stream."""
        index = position - self._buffer_position
        data = memoryview(self._buffer)[index : index + size]
        if len(data) < size:
            data = memoryview(b"".join((data, read_up_to(self._stream, size - len(data)))))
            self._buffer, self._buffer_position = data, position
        return data

    def _span_at(self, buffer: Piece, index: int, position: int) -> BatchSpan:
        """Return the batch whose header is at `index` in `buffer` and at `position` in the segment.

        Errors: DamagedSegment if it cannot be the batch after the batches that were read before.
        """
        base_offset, length, _, magic, delta = _HEAD.unpack_from(buffer, index)
        span = BatchSpan(position, length + LOG_OVERHEAD, base_offset, base_offset + delta)
        metadata = self._metadata
        if position == self._start > 0 and base_offset > self._indexed_offset:
            raise DamagedSegment(
                f"{self._name()}: the batch at byte {position} begins at offset {base_offset}, but the "
                f"index has offset {self._indexed_offset}"
            )
        if (
            magic != MAGIC
            or delta < 0
            or span.size_bytes < BATCH_OVERHEAD
            or position + span.size_bytes > metadata.segment_size_bytes
            or not self._last_offset < base_offset
            or span.last_offset > metadata.end_offset
        ):
            raise DamagedSegment(
                f"{self._name()}: not a batch of the segment at byte {position}: "
                f"size {span.size_bytes}, magic {magic}, offsets {base_offset} to {span.last_offset}"
            )
        return span

    def whole_batches(
        self, first: BatchSpan, data: memoryview, max_bytes: int, end_offset: Offset
    ) -> tuple[int, Offset]:
        """Return the size of the complete batches below `end_offset` in `data`, and the offset after them.

        `data` begins with `first`, which counts with any size; the others count up to `max_bytes` in total.
        """
        end, last_offset = first.size_bytes, first.last_offset
        limit = min(max_bytes, len(data))
        unpack, segment_end_offset = _HEAD.unpack_from, self._metadata.end_offset
        size_max = self._metadata.segment_size_bytes - first.position
        while end + BATCH_OVERHEAD <= limit:
            # The checks of `_span_at`, which creates the error: a call for each batch would double the time.
            base_offset, length, _, magic, delta = unpack(data, end)
            batch_end, batch_last_offset = end + length + LOG_OVERHEAD, base_offset + delta
            if (
                magic != MAGIC
                or delta < 0
                or length < BATCH_OVERHEAD - LOG_OVERHEAD
                or batch_end > size_max
                or base_offset <= last_offset
                or batch_last_offset > segment_end_offset
            ):
                self._last_offset = last_offset
                self._span_at(data, end, first.position + end)
                raise AssertionError(f"valid batch at byte {first.position + end}")
            if batch_end > limit or batch_last_offset >= end_offset:
                break
            end, last_offset = batch_end, batch_last_offset
        self._last_offset = last_offset
        return end, last_offset + 1

    def check(self, data: memoryview, position: int) -> None:
        """Verify the checksums of the complete batches `data`, which are at `position` in the segment.

        Errors: DamagedSegment for the first batch whose checksum is wrong.
        """
        start, total = 0, len(data)
        while start < total:
            base_offset, length, crc = _CHECKSUM_HEAD.unpack_from(data, start)
            end = start + LOG_OVERHEAD + length
            if crc32c(data[start + ATTRIBUTES_AT : end]) != crc:
                raise self._wrong_checksum(position + start, base_offset)
            start = end

    def _check_skipped(self) -> None:
        """Verify the checksum of the last batch that was skipped. Errors: DamagedSegment."""
        skipped = self._skipped
        if skipped is None:
            return
        if self._skipped_is_intact is None:
            start = skipped.position - self._buffer_position
            self.check(memoryview(self._buffer)[start : start + skipped.size_bytes], skipped.position)
        elif not self._skipped_is_intact:
            raise self._wrong_checksum(skipped.position, skipped.base_offset)

    def _read_next_header(self, index: int, piece_bytes: int) -> bool:
        """Read until the next header, at `index`, is in the buffer; return False at the segment's end."""
        rest = self._buffer[index:]
        self._leave_buffer(index)
        data = read_up_to(self._stream, piece_bytes)
        self._buffer = b"".join((rest, data)) if rest else data
        self._buffer_position = self._next_position
        if len(self._buffer) >= BATCH_OVERHEAD:
            return True
        if self._buffer or self._next_position < self._metadata.segment_size_bytes:
            raise self._short_segment(self._next_position + len(self._buffer))
        return False

    def _leave_buffer(self, index: int) -> None:
        """Read to `index`, which may be after the buffer, and verify the skipped batch while it is here."""
        skipped = self._skipped
        if skipped is None or self._skipped_is_intact is not None:
            return
        start = skipped.position - self._buffer_position
        _, _, expected_crc = _CHECKSUM_HEAD.unpack_from(self._buffer, start)
        crc = crc32c(memoryview(self._buffer)[start + ATTRIBUTES_AT : index])
        to_skip = index - len(self._buffer)
        while to_skip > 0:
            piece = read_up_to(self._stream, min(to_skip, PIECE_BYTES))
            if not piece:
                raise self._short_segment(self._next_position)
            crc = crc32c(piece, crc)
            to_skip -= len(piece)
        self._skipped_is_intact = crc == expected_crc

    def _wrong_checksum(self, position: int, base_offset: Offset) -> DamagedSegment:
        return DamagedSegment(
            f"{self._name()}: the checksum of the batch at byte {position}, which begins at "
            f"offset {base_offset}, is wrong"
        )

    def _short_segment(self, position: int) -> ShortSegment:
        return ShortSegment(f"{self._name()} ended at byte {position} of {self._metadata.segment_size_bytes}")
