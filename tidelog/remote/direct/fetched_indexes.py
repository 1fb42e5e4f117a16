"""The indexes of remote segments straight out of the tier, for those who look at each but a few times.

I/O: blocks, through the storage manager, which keeps some of the small files in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.remote.index_cache.file_names import CachedFile, CachedIndex
from tidelog.remote.index_cache.index_files import Index, fetched_index
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import RemoteStorageManager
from tidelog.storage.segment.offset_index import OffsetIndex
from tidelog.storage.segment.time_index import TimeIndex
from tidelog.storage.segment.txn_index import TransactionIndex


class FetchedIndexes:
    """As `SegmentIndexes` says; nothing is kept here."""

    def __init__(self, storage: RemoteStorageManager) -> None:
        self._storage = storage

    @contextmanager
    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[OffsetIndex]:
        """The segment's offset index."""
        index = self._fetched(metadata, CachedIndex.OFFSET)
        assert isinstance(index, OffsetIndex), index
        yield index

    @contextmanager
    def time_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[TimeIndex]:
        """The segment's time index."""
        index = self._fetched(metadata, CachedIndex.TIME)
        assert isinstance(index, TimeIndex), index
        yield index

    @contextmanager
    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[TransactionIndex]:
        """The segment's transaction index, an empty one when nothing was aborted."""
        index = self._fetched(metadata, CachedIndex.TRANSACTION)
        assert isinstance(index, TransactionIndex), index
        yield index

    def forget(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Nothing is kept."""

    def _fetched(self, metadata: RemoteLogSegmentMetadata, kind: CachedIndex) -> Index:
        return fetched_index(self._storage, CachedFile.of(metadata, kind), metadata)
