"""The indexes of remote segments, fetched directly, for readers that use each of them only a few times.

I/O: blocks, through the storage manager, which caches some indexes in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.remote.index_cache.file_names import CachedFile, CachedIndex
from tidelog.remote.index_cache.index_files import Index, fetch_index
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.remote.ports.storage_manager import RemoteStorageManager
from tidelog.storage.segment.offset_index import OffsetIndex
from tidelog.storage.segment.time_index import TimeIndex
from tidelog.storage.segment.txn_index import TransactionIndex


class FetchedIndexes:
    """Implements `SegmentIndexes` without a cache."""

    def __init__(self, storage: RemoteStorageManager) -> None:
        self._storage = storage

    @contextmanager
    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[OffsetIndex]:
        """Provide the segment's offset index."""
        index = self._fetch(metadata, CachedIndex.OFFSET)
        assert isinstance(index, OffsetIndex), index
        yield index

    @contextmanager
    def time_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[TimeIndex]:
        """Provide the segment's time index."""
        index = self._fetch(metadata, CachedIndex.TIME)
        assert isinstance(index, TimeIndex), index
        yield index

    @contextmanager
    def transaction_index(self, metadata: RemoteLogSegmentMetadata) -> Iterator[TransactionIndex]:
        """Provide the segment's transaction index; it is empty if no transaction was aborted."""
        index = self._fetch(metadata, CachedIndex.TRANSACTION)
        assert isinstance(index, TransactionIndex), index
        yield index

    def forget(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Do nothing: nothing is cached."""

    def _fetch(self, metadata: RemoteLogSegmentMetadata, kind: CachedIndex) -> Index:
        return fetch_index(self._storage, CachedFile.of(metadata, kind), metadata)
