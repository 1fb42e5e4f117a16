"""Reading slices of remote segments straight from the object store, as Arrow batches (shell).

I/O: blocks, through the remote storage manager (manifest, chunks, decryption). Bounds: one piece, one batch,
and what the decoder gathers. Errors: RemoteStorageError; DecodeError for what is no batch of the slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from protocol.batch import BATCH_OVERHEAD, read_header
from protocol.errors import DecodeError
from protocol.ids import Offset, ProducerId
from remote.storage_manager import ReadableStream, RemoteStorageManager
from spark_connector.planning.segment_slices import SegmentSlice

if TYPE_CHECKING:
    import pyarrow as pa

    from spark_connector.arrow.decoder import DecoderSettings

PIECE_BYTES: Final = 8 * 1024 * 1024


class AbortedRange(NamedTuple):
    """An aborted transaction: who wrote it, its first record and its abort marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset


def read_slice(
    storage: RemoteStorageManager,
    wanted: SegmentSlice,
    settings: DecoderSettings,
    *,
    aborted: Sequence[AbortedRange] | None = None,
    piece_bytes: int = PIECE_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The records of `wanted`; `aborted` overlap it, None shows the records of such, too."""
    from spark_connector.arrow.decoder import ArrowDecoder

    metadata = wanted.metadata
    decoder = ArrowDecoder(
        metadata.topic_id_partition.topic_partition, wanted.start_offset, wanted.end_offset, settings
    )
    stream = storage.fetch_log_segment(metadata, wanted.start_position, wanted.end_position - 1)
    rest = b""
    received = 0
    with closing(stream):
        while not decoder.is_done and (piece := _read(stream, max(piece_bytes, _missing(rest)))):
            received += len(piece)
            data = rest + piece
            rest = data[_whole_batches(data) :]
            yield from decoder.add(data, _overlapping(aborted, decoder.next_offset))
    # Positions are where batches begin: a rest, or fewer bytes than there should be, is damage.
    if not decoder.is_done and (rest or received < wanted.size_bytes):
        raise DecodeError(
            f"{metadata.remote_log_segment_id}: {received} of {wanted.size_bytes} bytes from byte "
            f"{wanted.start_position} on, which end within a batch behind offset {decoder.next_offset}"
        )
    yield from decoder.finish()


def _overlapping(
    aborted: Sequence[AbortedRange] | None, next_offset: Offset
) -> list[tuple[ProducerId, Offset]] | None:
    """Those that go on behind `next_offset`: the producer of an earlier one may have committed since."""
    if aborted is None:
        return None
    return [(one.producer_id, one.first_offset) for one in aborted if one.last_offset >= next_offset]


def _read(stream: ReadableStream, size: int) -> bytes:
    """The next `size` bytes; fewer only at the end. Streams give what they have, chunk by chunk."""
    parts = []
    missing = size
    while missing > 0 and (data := stream.read(missing)):
        parts.append(data)
        missing -= len(data)
    return b"".join(parts)


def _whole_batches(data: bytes) -> int:
    """How many bytes of `data` are whole batches."""
    position = 0
    while len(data) - position >= BATCH_OVERHEAD:
        end = position + read_header(data, position).size_bytes
        if end > len(data):
            break
        position = end
    return position


def _missing(rest: bytes) -> int:
    """How many bytes the batch that `rest` begins with still needs; 0 while its header is not there."""
    return read_header(rest).size_bytes - len(rest) if len(rest) >= BATCH_OVERHEAD else 0
