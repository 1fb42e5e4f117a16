"""Where in the bucket the batch with an offset is: through the offset index and the chunks of the manifest.

I/O: blocks. Errors: RemoteStorageError.
"""

from __future__ import annotations

from dataclasses import dataclass

from protocol.errors import DecodeError
from protocol.ids import Offset
from remote.index_cache.memory_file import MemoryFile
from remote.inspection.bucket import Bucket
from remote.segment_metadata import RemoteLogSegmentMetadata
from remote.segment_objects.manifest import SegmentManifest
from remote.storage_manager import IndexType, RemoteStorageError
from remote.streams import read_all
from storage.errors import CorruptIndex
from storage.offset_index import OffsetIndex

_INDEX_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class ByteRange:
    """Bytes [`log_start`, `log_end`) of the log file, in [`stored_start`, `stored_end`) of object `key`.

    The batch begins in this range: an offset index has an entry for some batches only.
    """

    key: str
    log_start: int
    log_end: int
    stored_start: int
    stored_end: int
    is_compressed: bool
    is_encrypted: bool


def byte_range(bucket: Bucket, segment: RemoteLogSegmentMetadata, offset: Offset) -> ByteRange:
    """Where `offset` of `segment` is."""
    keys = bucket.keys(segment)
    data = read_all(bucket.storage.fetch_index(segment, IndexType.OFFSET), _INDEX_BYTES_MAX)
    try:
        manifest = bucket.manifest(keys.manifest)
        index = OffsetIndex(MemoryFile("offset index", data), segment.start_offset, _INDEX_BYTES_MAX)
        index.sanity_check()
        start = index.lookup(offset).position
        following = index.first_at_or_after_position(start + 1)
    except (DecodeError, CorruptIndex) as error:
        raise RemoteStorageError(f"{keys.shown(keys.indexes)}: {error}") from error
    size = manifest.chunk_index.original_file_size
    end = size if following is None else following.position
    if not start < end <= size:
        place = f"bytes {start} to {end} of {size}"
        raise RemoteStorageError(f"{keys.shown(keys.indexes)}: the offset index leads to {place}")
    stored_start, stored_end = _stored(manifest, start, end)
    transform = manifest.transform
    return ByteRange(
        keys.shown(keys.log),
        start,
        end,
        stored_start,
        stored_end,
        transform.compression,
        transform.data_key is not None,
    )


def _stored(manifest: SegmentManifest, start: int, end: int) -> tuple[int, int]:
    """Whole chunks where stored bytes are not the original ones."""
    if manifest.transform.is_identity:
        return start, end
    chunks = manifest.chunk_index
    first, last = chunks.chunk(chunks.index_at(start)), chunks.chunk(chunks.index_at(end - 1))
    return first.transformed_position, last.transformed_end
