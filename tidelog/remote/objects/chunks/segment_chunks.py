"""Reading of chunks of one segment: a ranged GET, after which the transform of each chunk is undone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from tidelog.base.dataclass import dataclass
from tidelog.remote.objects.layout.chunk_index import Chunk, ChunkIndex
from tidelog.remote.objects.layout.manifest import SegmentManifest
from tidelog.remote.objects.layout.object_keys import SegmentKeys
from tidelog.remote.objects.layout.pieces import Pieces, read_pieces
from tidelog.remote.objects.layout.transform import DamagedChunk
from tidelog.remote.objects.stores.port import ObjectStore
from tidelog.remote.ports.storage_manager import DamagedSegment, RemoteStorageError
from tidelog.remote.ports.streams import ShortRead, read_exactly


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment that can be read: the keys of its objects and its manifest."""

    keys: SegmentKeys
    manifest: SegmentManifest

    @property
    def index(self) -> ChunkIndex:
        """The index of the segment's chunks."""
        return self.manifest.chunk_index

    @property
    def size(self) -> int:
        """The size of the original log file in bytes."""
        return self.manifest.chunk_index.original_file_size


def fetch_chunks(
    store: ObjectStore, segment: Segment, first: int, last: int
) -> Iterator[tuple[Chunk, Pieces]]:
    """Return chunks `first` to `last`, both inclusive, from one GET.

    Errors: RemoteStorageError that names the object if it is short, or if the store fails; DamagedSegment if
    a chunk cannot be decoded; RemoteResourceNotFound.
    """
    index, keys = segment.index, segment.keys
    begin, end = index.chunk(first).transformed_position, index.chunk(last).transformed_end
    transform = segment.manifest.transform
    if begin == end:
        raise RemoteStorageError(f"{keys.display_name(keys.log)}: chunks {first} to {last} have no bytes")
    with closing(store.get(keys.log, begin, end - 1)) as stream:
        for number in range(first, last + 1):
            chunk = index.chunk(number)
            try:
                if transform.is_identity and chunk.transformed_size == chunk.original_size:
                    yield chunk, read_pieces(stream, chunk.original_size)
                else:
                    stored = read_exactly(stream, chunk.transformed_size)
                    yield chunk, Pieces([transform.undo(stored, chunk.original_size)])
            except (ShortRead, DamagedChunk) as error:
                kind = DamagedSegment if isinstance(error, DamagedChunk) else RemoteStorageError
                raise kind(
                    f"{keys.display_name(keys.log)}: chunk {number} at {chunk.transformed_position}: {error}"
                ) from error
