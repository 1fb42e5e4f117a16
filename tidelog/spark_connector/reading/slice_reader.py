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


class SegmentGone(Exception):
    """The object store no longer has the segment; records below `next_offset` have been read."""

    def __init__(self, wanted: SegmentSlice, next_offset: Offset, cause: RemoteResourceNotFound) -> None:
        super().__init__(str(cause))
        self.wanted = wanted
        self.next_offset = next_offset


def read_slice(
    storage: RemoteStorageManager,
    wanted: SegmentSlice,
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

    metadata = wanted.metadata
    decoder = ArrowDecoder(
        metadata.topic_id_partition.topic_partition, wanted.start_offset, wanted.end_offset, settings
    )
    try:
        yield from _decoded(decoder, storage, wanted, aborted, piece_bytes)
    except RemoteResourceNotFound as error:
        yield from decoder.finish()
        next_offset = min(max(decoder.next_offset, wanted.start_offset), wanted.end_offset)
        raise SegmentGone(wanted, next_offset, error) from error
    except DecodeError as error:
        raise DecodeError(f"remote segment {metadata.remote_log_segment_id}: {error}") from error


def _decoded(
    decoder: ArrowDecoder,
    storage: RemoteStorageManager,
    wanted: SegmentSlice,
    aborted: Sequence[AbortedRange] | None,
    piece_bytes: int,
) -> Iterator[pa.RecordBatch]:
    stream = storage.fetch_log_segment(wanted.metadata, wanted.start_position, wanted.end_position - 1)
    received = 0
    batches = _BatchSplitter()
    with closing(stream), closing(PiecesAhead(stream, piece_bytes)) as pieces:
        while not decoder.is_done and (piece := pieces.next(batches.missing)):
            if not received:
                _check_anchor(wanted, piece)
            received += len(piece)
            for whole in batches.add(piece):
                yield from decoder.add(whole, _overlapping(aborted, decoder.next_offset))
    # Positions are starts of batches: an incomplete batch, or missing bytes, means damage.
    if not decoder.is_done and (batches.rest or received < wanted.size_bytes):
        raise DecodeError(
            f"{received} of {wanted.size_bytes} bytes from byte {wanted.start_position}, which end "
            f"within a batch after offset {decoder.next_offset}"
        )
    if not decoder.is_done and wanted.end_position < wanted.metadata.segment_size_bytes:
        raise DecodeError(
            f"its offset index has offset {wanted.end_offset - 1} before byte "
            f"{wanted.end_position}, but the records there end with offset {decoder.next_offset - 1}"
        )
    yield from decoder.finish()


def _check_anchor(wanted: SegmentSlice, piece: bytes) -> None:
    """Raise DecodeError if the position from the index is after the requested records."""
    if wanted.anchor_offset is None or len(piece) < BATCH_OVERHEAD:
        return
    base_offset = read_header(piece).base_offset
    if base_offset > wanted.anchor_offset:
        raise DecodeError(
            f"its offset index has offset {wanted.anchor_offset} at byte {wanted.start_position}, "
            f"where the batch of offset {base_offset} is"
        )


class PiecesAhead:
    """Reads pieces of a stream, and fetches the next piece while the last one is processed.

    Bounds: two pieces of `piece_bytes`, or of the size of a larger batch.
    """

    def __init__(self, stream: ReadableStream, piece_bytes: int) -> None:
        self._stream = stream
        self._piece_bytes = piece_bytes
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tidelog-spark-slice")
        self._ahead = self._fetch(piece_bytes)

    def next(self, at_least: int) -> bytes:
        """Return the next piece of at least `at_least` bytes; it is shorter, or empty, only at the end."""
        piece = self._ahead.result()
        if piece and len(piece) < at_least:
            piece += self._fetch(at_least - len(piece)).result()
        if piece:
            self._ahead = self._fetch(self._piece_bytes)
        return piece

    def close(self) -> None:
        """Wait until no read of the stream is in progress."""
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _fetch(self, size: int) -> Future[bytes]:
        return self._thread.submit(_read, self._stream, size)


def _overlapping(
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
