"""Reads slices of remote segments directly from the object store, as Arrow batches (shell).

I/O: blocks, through the remote storage manager (manifest, chunks, decryption). Bounds: two pieces, one batch,
and the batches that the decoder collects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, Final

from tidelog.protocol.batch import BATCH_OVERHEAD, read_header
from tidelog.protocol.compression import BytesLike
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset, ProducerId
from tidelog.remote.ports.storage_manager import ReadableStream, RemoteResourceNotFound, RemoteStorageManager
from tidelog.spark_connector.planning.ranges import AbortedRange
from tidelog.spark_connector.planning.segment_slices import SegmentSlice

if TYPE_CHECKING:
    import pyarrow as pa

    from tidelog.spark_connector.arrow.decoder import ArrowDecoder, DecoderSettings

# Larger pieces do not fit in the processor's caches, and the kernel must provide new memory for each.
PIECE_BYTES: Final = 2 * 1024 * 1024


class MissingSegmentError(Exception):
    """The object store no longer has the segment; records below `next_offset` have been read."""

    def __init__(
        self, segment_slice: SegmentSlice, next_offset: Offset, cause: RemoteResourceNotFound
    ) -> None:
        super().__init__(str(cause))
        self.segment_slice = segment_slice
        self.next_offset = next_offset


def read_slice(
    storage: RemoteStorageManager,
    segment_slice: SegmentSlice,
    settings: DecoderSettings,
    *,
    aborted: Sequence[AbortedRange] | None = None,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of `wanted` without those of `aborted` transactions; None includes them.

    Errors: SegmentGone, after the records that could be read; RemoteStorageError; DecodeError, which names
    the segment.
    """
    from tidelog.spark_connector.arrow.decoder import ArrowDecoder

    metadata = segment_slice.metadata
    decoder = ArrowDecoder(
        metadata.topic_id_partition.topic_partition,
        segment_slice.start_offset,
        segment_slice.end_offset,
        settings,
    )
    try:
        yield from _decode(decoder, storage, segment_slice, aborted, piece_bytes)
    except RemoteResourceNotFound as error:
        yield from decoder.finish()
        next_offset = min(max(decoder.next_offset, segment_slice.start_offset), segment_slice.end_offset)
        raise MissingSegmentError(segment_slice, next_offset, error) from error
    except DecodeError as error:
        raise DecodeError(f"remote segment {metadata.remote_log_segment_id}: {error}") from error


def _decode(
    decoder: ArrowDecoder,
    storage: RemoteStorageManager,
    segment_slice: SegmentSlice,
    aborted: Sequence[AbortedRange] | None,
    piece_bytes: int,
) -> Iterator[pa.RecordBatch]:
    stream = storage.fetch_log_segment(
        segment_slice.metadata, segment_slice.start_position, segment_slice.end_position - 1
    )
    received = 0
    batches = _BatchSplitter()
    with closing(stream), closing(ReadAhead(stream, piece_bytes)) as pieces:
        while not decoder.is_complete and (piece := pieces.next(batches.missing)):
            if not received:
                _check_anchor(segment_slice, piece)
            received += len(piece)
            for whole in batches.add(piece):
                yield from decoder.add(whole, _relevant(aborted, decoder.next_offset))
    # Positions are starts of batches: an incomplete batch, or missing bytes, means damage.
    if not decoder.is_complete and (batches.rest or received < segment_slice.size_bytes):
        raise DecodeError(
            f"{received} of {segment_slice.size_bytes} bytes from byte {segment_slice.start_position}, "
            f"which end within a batch after offset {decoder.next_offset}"
        )
    if not decoder.is_complete and segment_slice.end_position < segment_slice.metadata.segment_size_bytes:
        raise DecodeError(
            f"its offset index has offset {segment_slice.end_offset - 1} before byte "
            f"{segment_slice.end_position}, but the records there end with offset {decoder.next_offset - 1}"
        )
    yield from decoder.finish()


def _check_anchor(segment_slice: SegmentSlice, piece: bytes) -> None:
    """Raise DecodeError if the position from the index is after the requested records."""
    if segment_slice.anchor_offset is None or len(piece) < BATCH_OVERHEAD:
        return
    base_offset = read_header(piece).base_offset
    if base_offset > segment_slice.anchor_offset:
        raise DecodeError(
            f"its offset index has offset {segment_slice.anchor_offset} at byte "
            f"{segment_slice.start_position}, where the batch of offset {base_offset} is"
        )


class ReadAhead:
    """Reads pieces of a stream, and fetches the next piece while the last one is processed.

    Bounds: two pieces of `piece_bytes`, or of the size of a larger batch.
    """

    def __init__(self, stream: ReadableStream, piece_bytes: int) -> None:
        self._stream = stream
        self._piece_bytes = piece_bytes
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidelog-spark-slice")
        self._next_piece = self._fetch(piece_bytes)

    def next(self, min_bytes: int) -> bytes:
        """Return the next piece of at least `min_bytes` bytes; it is shorter, or empty, only at the end."""
        piece = self._next_piece.result()
        if piece and len(piece) < min_bytes:
            piece += self._fetch(min_bytes - len(piece)).result()
        if piece:
            self._next_piece = self._fetch(self._piece_bytes)
        return piece

    def close(self) -> None:
        """Wait until no read of the stream is in progress."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _fetch(self, size: int) -> Future[bytes]:
        return self._thread.submit(_read, self._stream, size)


def _relevant(
    aborted: Sequence[AbortedRange] | None, next_offset: Offset
) -> list[tuple[ProducerId, Offset]] | None:
    """Return those that end after `next_offset`: the producer of an earlier one may have committed since."""
    if aborted is None:
        return None
    return [(one.producer_id, one.first_offset) for one in aborted if one.last_offset >= next_offset]


def _read(stream: ReadableStream, size: int) -> bytes:
    """Return the next `size` bytes, fewer only at the end. A stream returns what it has, chunk by chunk."""
    parts = []
    missing = size
    while missing > 0 and (data := stream.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


class _BatchSplitter:
    """Divides pieces into whole batches; only a batch that spans two pieces is copied."""

    def __init__(self) -> None:
        self.rest = b""
        """The beginning of a batch that continues in the next piece."""

    @property
    def missing(self) -> int:
        """Return how many bytes of that batch are missing; 0 while its header is incomplete."""
        return read_header(self.rest).size_bytes - len(self.rest) if len(self.rest) >= BATCH_OVERHEAD else 0

    def add(self, piece: bytes) -> Iterator[BytesLike]:
        """Yield the batches that are complete now, in up to two parts."""
        view = memoryview(piece)
        if self.rest:
            head = self.rest + view[:BATCH_OVERHEAD]
            has_header = len(head) >= BATCH_OVERHEAD
            taken = read_header(head).size_bytes - len(self.rest) if has_header else len(piece)
            if taken >= len(piece):
                whole = self.rest + piece
                end = _whole_batches(whole)
                self.rest = whole[end:]
                yield whole[:end]
                return
            yield self.rest + view[:taken]
            view = view[taken:]
        end = _whole_batches(view)
        self.rest = bytes(view[end:])
        yield view[:end]


def _whole_batches(data: BytesLike) -> int:
    """Return how many bytes of `data` are whole batches."""
    position = 0
    while len(data) - position >= BATCH_OVERHEAD:
        end = position + read_header(data, position).size_bytes
        if end > len(data):
            break
        position = end
    return position
