"""The port through which readers of segments get indexes, each for the duration of a `with` block."""

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
        """Provide the segment's offset index."""
        ...

    def time_index(self, metadata: RemoteLogSegmentMetadata) -> AbstractContextManager[TimeIndex]:
        """Provide the segment's time index."""
        ...

    def transaction_index(
        self, metadata: RemoteLogSegmentMetadata
    ) -> AbstractContextManager[TransactionIndex]:
        """Provide the segment's transaction index; it is empty if no transaction was aborted."""
        ...

    def forget(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Remove damaged indexes of the segment."""
        ...
