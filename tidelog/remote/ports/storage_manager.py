"""The port to where segments are kept: what KIP-405 asks of a RemoteStorageManager.

Every call blocks and may come from any thread, several at once; none is made on the event loop. Objects
are addressed by the whole metadata of a segment, so that a storage manager needs no catalogue of its own.

Source: org.apache.kafka.server.log.remote.storage.RemoteStorageManager of Apache Kafka 4.3; KIP-405, KIP-917.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata


class RemoteStorageError(Exception):
    """Remote storage did not do what it was asked; it may later."""


class RemoteResourceNotFound(RemoteStorageError):
    """The segment or index is not there."""


class IndexType(Enum):
    """The small files that travel with a segment."""

    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    PRODUCER_SNAPSHOT = "producer snapshot"
    TRANSACTION = "transaction"
    LEADER_EPOCH = "leader epoch"


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """The files of a sealed segment, by path; `leader_epochs` is the content of a leader-epoch-checkpoint."""

    log: str
    offset_index: str
    time_index: str
    producer_snapshot: str
    leader_epochs: bytes
    transaction_index: str | None = None
    """None when no transaction of the segment was aborted."""


class ReadableStream(Protocol):
    """Bytes of an object, read once from the front."""

    def read(self, size: int = -1, /) -> bytes:
        """The next bytes, at most `size`, all of the rest when negative; empty at the end."""
        ...

    def close(self) -> None:
        """Stop reading; what was not read is not fetched."""
        ...


class RemoteStorageManager(Protocol):
    """Copies, reads and deletes segments. Errors: RemoteStorageError from every method."""

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData
    ) -> bytes | None:
        """Copy the files; all of them are readable when this returns. The answer is custom metadata, or None.

        A failed attempt may leave parts behind: they go with `delete_log_segment_data`.
        """
        ...

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> ReadableStream:
        """The bytes of the log file from `start_position` to `end_position`, both inclusive; None is the end.

        An end behind the segment's last byte counts as its last byte.
        Errors: RemoteResourceNotFound; ValueError for positions that are no range.
        """
        ...

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> ReadableStream:
        """One of the small files, whole. Errors: RemoteResourceNotFound, also when there never was one."""
        ...

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Delete everything of the segment; what is gone already is no error."""
        ...

    def close(self) -> None:
        """Give back threads and connections; nothing is called afterwards."""
        ...
