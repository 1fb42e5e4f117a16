"""Writes that wait until this node has read back their records.

A record may be read before its writer receives its offset. Therefore the outcomes of all records that are
read during a write to their metadata partition are kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.cache import Outcome


class ReadBack:
    """The writes in progress, by metadata partition."""

    def __init__(self) -> None:
        self._writes: dict[int, list[Write]] = {}

    @contextmanager
    def write(self, metadata_partition: int) -> Iterator[Write]:
        """Register one write before it is sent, for the duration of the block."""
        write = Write()
        self._writes.setdefault(metadata_partition, []).append(write)
        try:
            yield write
        finally:
            writes = self._writes[metadata_partition]
            writes.remove(write)
            if not writes:
                del self._writes[metadata_partition]

    def on_applied(self, metadata_partition: int, offset: Offset, outcome: Outcome) -> None:
        """Store the outcome of the record at `offset`, which was applied."""
        for write in self._writes.get(metadata_partition, ()):
            write.outcomes[offset] = outcome

    def on_read_up_to(self, metadata_partition: int, next_offset: Offset) -> None:
        """Complete the writes of records before `next_offset`, which have all been read."""
        for write in self._writes.get(metadata_partition, ()):
            if write.offset is not None and write.offset < next_offset and not write.is_read.done():
                write.is_read.set_result(None)

    def fail(self, error: Exception, metadata_partition: int | None = None) -> None:
        """Fail the waiting writes of one metadata partition, or of all: nothing more will be read."""
        numbers = list(self._writes) if metadata_partition is None else [metadata_partition]
        for number in numbers:
            for write in self._writes.get(number, ()):
                if not write.is_read.done():
                    write.is_read.set_exception(error)
                    write.is_read.exception()  # mark it as retrieved: no task may be waiting yet


class Write:
    """One write; `offset` is None until it is known."""

    __slots__ = ("is_read", "offset", "outcomes")

    def __init__(self) -> None:
        self.offset: Offset | None = None
        self.outcomes: dict[Offset, Outcome] = {}
        self.is_read: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def read_back(self, offset: Offset, tail: Offset) -> Outcome | None:
        """Wait until the record at `offset` was read, and return its outcome, None if it was not applied.

        `tail` is the next offset that is read of its metadata partition.
        """
        self.offset = offset
        if offset >= tail or self.is_read.done():
            await self.is_read
        return self.outcomes.get(offset)
