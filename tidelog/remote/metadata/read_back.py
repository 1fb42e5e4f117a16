"""Writes that wait until this node has read them back.

A record may be read before its writer hears at which offset it stands: while a write to a metadata
partition is under way, what became of the records read from it is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tidelog.protocol.ids import Offset
from tidelog.remote.metadata.cache import Outcome


class ReadBack:
    """The writes that are under way, by metadata partition."""

    def __init__(self) -> None:
        self._writes: dict[int, list[Write]] = {}

    @contextmanager
    def write(self, metadata_partition: int) -> Iterator[Write]:
        """One write, from before it is sent."""
        write = Write()
        self._writes.setdefault(metadata_partition, []).append(write)
        try:
            yield write
        finally:
            writes = self._writes[metadata_partition]
            writes.remove(write)
            if not writes:
                del self._writes[metadata_partition]

    def heard(self, metadata_partition: int, offset: Offset, outcome: Outcome) -> None:
        """The record at `offset` was taken over."""
        for write in self._writes.get(metadata_partition, ()):
            write.outcomes[offset] = outcome

    def passed(self, metadata_partition: int, next_offset: Offset) -> None:
        """Everything before `next_offset` has been read."""
        for write in self._writes.get(metadata_partition, ()):
            if write.offset is not None and write.offset < next_offset and not write.is_read.done():
                write.is_read.set_result(None)

    def fail(self, error: Exception, metadata_partition: int | None = None) -> None:
        """Nothing more will be read, of one metadata partition or of all."""
        numbers = list(self._writes) if metadata_partition is None else [metadata_partition]
        for number in numbers:
            for write in self._writes.get(number, ()):
                if not write.is_read.done():
                    write.is_read.set_exception(error)
                    write.is_read.exception()  # nobody need wait for it yet


class Write:
    """One write: `offset` once it is known."""

    __slots__ = ("is_read", "offset", "outcomes")

    def __init__(self) -> None:
        self.offset: Offset | None = None
        self.outcomes: dict[Offset, Outcome] = {}
        self.is_read: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def read_back(self, offset: Offset, tail: Offset) -> Outcome | None:
        """What became of the record at `offset`; None when it passed without being heard."""
        self.offset = offset
        if offset >= tail or self.is_read.done():
            await self.is_read
        return self.outcomes.get(offset)
