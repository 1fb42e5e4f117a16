"""The port to remote storage: the RemoteStorageManager of KIP-405.

Every call blocks and may come from any thread, several at a time; no call is made on the event loop. Objects
are addressed by the complete metadata of a segment, so that a storage manager needs no catalogue.

Source: org.apache.kafka.server.log.remote.storage.RemoteStorageManager of Apache Kafka 4.3; KIP-405, KIP-917.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from tidelog.base.dataclass import dataclass
from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata


class RemoteStorageError(Exception):
    """Remote storage did not complete an operation; a retry may succeed."""


class RemoteResourceNotFound(RemoteStorageError):
    """The segment or the index does not exist."""


class StoreUnavailable(RemoteStorageError):
    """The store does not respond, or refuses all requests, for example because of wrong credentials."""


class DamagedSegment(RemoteStorageError):
    """The stored bytes of a segment are not those that were copied."""


class IndexType(Enum):
    """The small files that are stored with a segment."""

    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    PRODUCER_SNAPSHOT = "producer snapshot"
    TRANSACTION = "transaction"
    LEADER_EPOCH = "leader epoch"


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """The paths of the files of a sealed segment.

    `leader_epochs` is the content of a leader-epoch-checkpoint.
    """

    log: str
    offset_index: str
    time_index: str
    producer_snapshot: str
    leader_epochs: bytes
    transaction_index: str | None = None
    """None if the segment has no aborted transaction."""


class ReadableStream(Protocol):
    """The bytes of an object, read once from the start."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` of the next bytes, all if `size` is negative; empty at the end."""
        ...

    def close(self) -> None:
        """Stop reading; bytes that were not read are not fetched."""
        ...


class RemoteStorageManager(Protocol):
    """Copies, reads and deletes segments. Errors: RemoteStorageError from every method."""

    def copy_log_segment_data(
        self, metadata: RemoteLogSegmentMetadata, segment: LogSegmentData
    ) -> bytes | None:
        """Copy the files and return the custom metadata, or None. All files are readable on return.

        A failed attempt may leave objects; `delete_log_segment_data` deletes them.
        """
        ...

    def fetch_log_segment(
        self, metadata: RemoteLogSegmentMetadata, start_position: int, end_position: int | None = None
    ) -> ReadableStream:
        """Return the bytes of the log file from `start_position` to `end_position`, both inclusive.

        None is the end of the file. An end beyond the last byte means the last byte.
        Errors: RemoteResourceNotFound; ValueError for positions that are not a range.
        """
        ...

    def fetch_index(self, metadata: RemoteLogSegmentMetadata, index_type: IndexType) -> ReadableStream:
        """Return the complete content of one index.

        Errors: RemoteResourceNotFound, also if the segment never had this index.
        """
        ...

    def delete_log_segment_data(self, metadata: RemoteLogSegmentMetadata) -> None:
        """Delete all objects of the segment; a missing object is not an error."""
        ...

    def close(self) -> None:
        """Release threads and connections; no call follows."""
        ...
