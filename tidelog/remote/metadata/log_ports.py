"""The ports of the metadata topic, which the topic-based manager uses instead of clients.

Errors: KafkaError and OSError from every method; all calls may be retried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset

RETRIED: Final = (KafkaError, OSError, TimeoutError)
"""The errors after which a call is retried."""


class LogRecord(NamedTuple):
    """A record of the metadata topic."""

    offset: Offset
    value: bytes


class ReadRecords(NamedTuple):
    """Records of one metadata partition in order, and the next offset to read."""

    metadata_partition: int
    records: Sequence[LogRecord]
    next_offset: Offset


class LogBounds(NamedTuple):
    """The first offset of a metadata partition, and the offset after its last record."""

    start: Offset
    end: Offset


class MetadataLogWriter(Protocol):
    """Writes to the metadata topic."""

    async def append(self, metadata_partition: int, value: bytes) -> Offset:
        """Write one record and return its offset when all in-sync replicas have it."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class MetadataLogReader(Protocol):
    """Reads metadata partitions from given positions; used by one task at a time."""

    async def bounds(self, metadata_partitions: Sequence[int]) -> dict[int, LogBounds]:
        """Return the current bounds of `metadata_partitions`."""
        ...

    async def read(self, positions: Mapping[int, Offset], max_wait_ms: int) -> list[ReadRecords]:
        """Return the records at `positions`, and wait up to `max_wait_ms` for the first one.

        Empty if none arrived in time. A position that is no longer in the log means the log's start.
        """
        ...

    def stop_fetching(self) -> None:
        """Send no requests until the next `read`."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class MetadataTopic(Protocol):
    """The topic, and the connections to it."""

    async def ensure(self) -> None:
        """Create the topic unless it exists. Errors: WrongMetadataTopic if it cannot be used."""
        ...

    async def open_writer(self) -> MetadataLogWriter:
        """Return a connected writer."""
        ...

    async def open_reader(self) -> MetadataLogReader:
        """Return a connected reader."""
        ...


class WrongMetadataTopic(Exception):
    """The metadata topic exists, but does not match the settings."""
