"""Cutting whole batches out of the bytes of a remote segment, by their headers alone.

I/O: blocks, in pieces of at most PIECE_BYTES while it looks for the first batch. Bounds: the bytes wanted,
or one batch, and one piece.
Errors: DamagedSegment when what stands there cannot be a batch of the segment, ShortSegment when the stream
ends before the segment does; RemoteStorageError.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from tidelog.protocol.batch import BATCH_OVERHEAD, LOG_OVERHEAD, MAGIC
from tidelog.protocol.ids import Offset
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import RemoteStorageError
from tidelog.remote.ports.streams import Piece, PieceStream, read_up_to

PIECE_BYTES: Final = 256 * 1024

# Base offset, length, leader epoch, magic, CRC, attributes, last offset delta.
_HEAD: Final = struct.Struct(">qiib4x2xi")


class DamagedSegment(RemoteStorageError):
    """The bytes of a remote segment, or what an index says of them, are not what was copied."""


class ShortSegment(RemoteStorageError):
    """The tier gave fewer bytes of a remote segment than it has."""


class BatchSpan(NamedTuple):
    """A batch: where in the segment it starts, its size in bytes, and its offsets, both inclusive."""

    position: int
    size_bytes: int
    base_offset: Offset
    last_offset: Offset


class BatchStream:
    """The batches of `metadata`'s segment from `position` on, which must be where one starts.

    `indexed_offset` is the one that an index placed there, so that the batch begins at or below it: else
    records before the batch would be passed over. At the segment's start there need not be one.
    """

    def __init__(
        self,
        metadata: RemoteLogSegmentMetadata,
        stream: PieceStream[Piece],
        position: int,
        indexed_offset: Offset,
    ) -> None:
        self._metadata = metadata
        self._stream = stream
        self._start = position
        self._indexed_offset = indexed_offset
        self._buffer: Piece = b""
        self._buffer_position = position
        self._next_position = position
        self._last_offset = metadata.start_offset - 1

    def first_reaching(self, offset: Offset, first_piece_bytes: int) -> BatchSpan | None:
        """The first batch whose last offset is at or above `offset`; None when the stream ends before.

        `first_piece_bytes` is how much is read at once to begin with.
        """
        piece_bytes = max(first_piece_bytes, BATCH_OVERHEAD)
        while True:
            at = self._next_position - self._buffer_position
            if at + BATCH_OVERHEAD > len(self._buffer):
                if not self._read_on(at, piece_bytes):
                    return None
                piece_bytes, at = PIECE_BYTES, 0
            span = self.span_at(self._buffer, at, self._next_position)
            if span.last_offset >= offset:
                return span
            self._last_offset = span.last_offset
            self._next_position += span.size_bytes

    def data_from(self, position: int, size: int) -> memoryview:
        """Up to `size` bytes from `position`, which is in what was read; fewer where the stream ends."""
        at = position - self._buffer_position
        data = memoryview(self._buffer)[at : at + size]
        if len(data) < size:
            data = memoryview(b"".join((data, read_up_to(self._stream, size - len(data)))))
            self._buffer, self._buffer_position = data, position
        return data

    def span_at(self, buffer: Piece, at: int, position: int) -> BatchSpan:
        """The batch whose header is at `at` of `buffer`, behind those seen before."""
        base_offset, length, _, magic, delta = _HEAD.unpack_from(buffer, at)
        span = BatchSpan(position, length + LOG_OVERHEAD, base_offset, base_offset + delta)
        metadata = self._metadata
        if position == self._start > 0 and base_offset > self._indexed_offset:
            raise DamagedSegment(
                f"{metadata.remote_log_segment_id}, byte {position}: offset {base_offset} stands where an "
                f"index has {self._indexed_offset}"
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
                f"{metadata.remote_log_segment_id}, byte {position}: no batch of the segment, but "
                f"{span.size_bytes} bytes of format {magic}, offsets {base_offset} to {span.last_offset}"
            )
        return span

    def whole_batches(
        self, first: BatchSpan, data: memoryview, max_bytes: int, end_offset: Offset
    ) -> tuple[int, Offset]:
        """How many bytes of `data`, which starts with `first`, are whole batches below `end_offset`.

        Also the offset behind them. `first` counts whatever its size, the others up to `max_bytes`.
        """
        end, next_offset = first.size_bytes, first.last_offset + 1
        self._last_offset = first.last_offset
        limit = min(max_bytes, len(data))
        while end + BATCH_OVERHEAD <= limit:
            span = self.span_at(data, end, first.position + end)
            if end + span.size_bytes > limit or span.last_offset >= end_offset:
                break
            end, next_offset = end + span.size_bytes, span.last_offset + 1
            self._last_offset = span.last_offset
        return end, next_offset

    def _read_on(self, at: int, piece_bytes: int) -> bool:
        """Have the next header in the buffer; False when the segment ends here."""
        rest = self._buffer[at:]
        to_skip = at - len(self._buffer)
        while to_skip > 0:
            skipped = len(read_up_to(self._stream, min(to_skip, PIECE_BYTES)))
            if not skipped:
                raise self._ended(self._next_position)
            to_skip -= skipped
        data = read_up_to(self._stream, piece_bytes)
        self._buffer = b"".join((rest, data)) if rest else data
        self._buffer_position = self._next_position
        if len(self._buffer) >= BATCH_OVERHEAD:
            return True
        if self._buffer or self._next_position < self._metadata.segment_size_bytes:
            raise self._ended(self._next_position + len(self._buffer))
        return False

    def _ended(self, position: int) -> ShortSegment:
        return ShortSegment(
            f"{self._metadata.remote_log_segment_id} ended at byte {position} of "
            f"{self._metadata.segment_size_bytes}"
        )
