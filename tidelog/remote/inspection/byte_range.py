"""The position in the bucket of the batch with an offset.

It is found by the offset index, the batch headers and the chunks of the manifest.
I/O: blocks. Errors: RemoteStorageError.
"""

from __future__ import annotations

from contextlib import closing

from tidelog.base.dataclass import dataclass
from tidelog.protocol.errors import DecodeError
from tidelog.protocol.ids import Offset
from tidelog.remote.index_cache.memory_file import MemoryFile
from tidelog.remote.inspection.bucket import Bucket
from tidelog.remote.objects.layout.manifest import SegmentManifest
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import IndexType, RemoteStorageError
from tidelog.remote.ports.streams import read_all
from tidelog.remote.reading.batch_stream import PIECE_BYTES, BatchStream
from tidelog.storage.disk.errors import CorruptIndex
from tidelog.storage.segment.offset_index import OffsetIndex

_INDEX_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The batch of offsets [`base_offset`, `last_offset`]: bytes [`log_start`, `log_end`) of the log file.

    They are in [`stored_start`, `stored_end`) of object `key`: complete chunks if the log is transformed.
    """

    key: str
    base_offset: Offset
    last_offset: Offset
    log_start: int
    log_end: int
    stored_start: int
    stored_end: int
    is_compressed: bool
    is_encrypted: bool


def byte_range(bucket: Bucket, segment: RemoteLogSegmentMetadata, offset: Offset) -> ByteRange:
    """Return the position of `offset` of `segment`."""
    keys = bucket.keys(segment)
    data = read_all(bucket.storage.fetch_index(segment, IndexType.OFFSET), _INDEX_BYTES_MAX)
    try:
        index = OffsetIndex(MemoryFile("offset index", data), segment.start_offset, _INDEX_BYTES_MAX)
        index.sanity_check()
        indexed_offset, start = index.lookup(offset)
        manifest = bucket.manifest(keys.manifest)
    except (DecodeError, CorruptIndex) as error:
        raise RemoteStorageError(f"{keys.display_name(keys.indexes)}: {error}") from error
    if not start < manifest.chunk_index.original_file_size:
        raise RemoteStorageError(
            f"{keys.display_name(keys.indexes)}: the offset index has position {start}, beyond the log"
        )
    with closing(bucket.storage.fetch_log_segment(segment, start)) as stream:
        batches = BatchStream(segment, stream, start, indexed_offset, lambda: keys.display_name(keys.log))
        batch = batches.first_reaching(offset, PIECE_BYTES)
    if batch is None:
        raise RemoteStorageError(f"{keys.display_name(keys.log)}: no batch reaches offset {offset}")
    end = batch.position + batch.size_bytes
    stored_start, stored_end = _stored_range(manifest, batch.position, end)
    return ByteRange(
        keys.display_name(keys.log),
        batch.base_offset,
        batch.last_offset,
        batch.position,
        end,
        stored_start,
        stored_end,
        manifest.transform.compression,
        manifest.transform.data_key is not None,
    )


def _stored_range(manifest: SegmentManifest, start: int, end: int) -> tuple[int, int]:
    """Return the stored range: complete chunks if the stored bytes are not the original ones."""
    if manifest.transform.is_identity:
        return start, end
    chunks = manifest.chunk_index
    first, last = chunks.chunk(chunks.index_at(start)), chunks.chunk(chunks.index_at(end - 1))
    return first.transformed_position, last.transformed_end
