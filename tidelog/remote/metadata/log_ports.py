"""The seam to the metadata topic: what the topic-based manager needs of clients.

Errors: KafkaError and OSError from every method; all may be tried again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import Offset

RETRIED: Final = (KafkaError, OSError, TimeoutError)
"""The errors after which a call is tried again."""


class LogRecord(NamedTuple):
    """A record of the metadata topic."""

    offset: Offset
    value: bytes


class ReadRecords(NamedTuple):
    """Records of one metadata partition in order, and the offset to read on from."""

    metadata_partition: int
    records: Sequence[LogRecord]
    next_offset: Offset


class LogBounds(NamedTuple):
    """The first offset of a metadata partition and the one behind its last record."""

    start: Offset
    end: Offset


class MetadataLogWriter(Protocol):
    """Writes to the metadata topic."""

    async def append(self, metadata_partition: int, value: bytes) -> Offset:
        """Write one record; returns its offset when all in-sync replicas have it."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class MetadataLogReader(Protocol):
    """Reads metadata partitions from given positions on; used by one task at a time."""

    async def bounds(self, metadata_partitions: Sequence[int]) -> dict[int, LogBounds]:
        """Where these metadata partitions begin and end now."""
        ...

    async def read(self, positions: Mapping[int, Offset], max_wait_ms: int) -> list[ReadRecords]:
        """What stands at `positions`, waiting for the first; empty when none came in time.

        A position that is no more in the log counts as the log's start.
        """
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class MetadataTopic(Protocol):
    """The topic, and ways to connect to it."""

    async def ensure(self) -> None:
        """Create the topic unless it is there. Errors: WrongMetadataTopic when it cannot be used."""
        ...

    async def open_writer(self) -> MetadataLogWriter:
        """A writer that is connected."""
        ...

    async def open_reader(self) -> MetadataLogReader:
        """A reader that is connected."""
        ...


class WrongMetadataTopic(Exception):
    """The metadata topic is there, but not as the settings say."""
