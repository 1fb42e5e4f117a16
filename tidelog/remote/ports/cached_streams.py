"""Optional interfaces of a storage manager that caches bytes of segments, and of its streams.

Readers verify checksums before they return bytes. A stream over a cache records the verified ranges, so
that bytes that many readers request are verified once. Bytes that turned out to be damaged are discarded,
because the object may be intact or repaired.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol, runtime_checkable

from tidelog.remote.ports.segment_metadata import RemoteLogSegmentMetadata


class CachedStream(ABC):
    """A stream over cached bytes of a segment. Positions are those of the log file; an end is exclusive."""

    @abstractmethod
    def read_view(self, size: int, /) -> bytes | memoryview:
        """Return at most `size` of the next bytes, without a copy if they are in one piece."""

    @abstractmethod
    def are_checked(self, start: int, end: int) -> bool:
        """Return whether these bytes have been in the cache since the stream was opened, and are checked."""

    @abstractmethod
    def record_checked(self, start: int, end: int) -> None:
        """Record that the checksums of these bytes, which this stream returned, are valid."""


@runtime_checkable
class CachingStorage(Protocol):
    """A storage manager that caches bytes of segments."""

    def object_name(self, metadata: RemoteLogSegmentMetadata) -> str:
        """Return the name of the object with the segment's log, as logs may show it."""
        ...

    def discard_cached(self, metadata: RemoteLogSegmentMetadata, start: int, end: int) -> None:
        """Remove the cached bytes that overlap the range, and the cached manifest and indexes."""
        ...
