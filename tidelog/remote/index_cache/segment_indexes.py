"""What those who read segments ask of whoever keeps indexes: each for as long as a `with` block lasts."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata
from tidelog.storage.segment.offset_index import OffsetIndex
from tidelog.storage.segment.time_index import TimeIndex
from tidelog.storage.segment.txn_index import TransactionIndex


class SegmentIndexes(Protocol):
    """The indexes of remote segments. Errors: RemoteStorageError; RemoteResourceNotFound."""

    def offset_index(self, metadata: RemoteLogSegmentMetadata) -> AbstractContextManager[OffsetIndex]:
        """The segment's offset index."""
        ...

    def time_index(self, metadata: RemoteLogSegmentMetadata) -> AbstractContextManager[TimeIndex]:
        """The segment's time index."""
        ...

    def transaction_index(
        self, metadata: RemoteLogSegmentMetadata
    ) -> AbstractContextManager[TransactionIndex]:
        """The segment's transaction index, an empty one when nothing was aborted."""
        ...

    def forget(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Do not keep what proved to be wrong."""
        ...
