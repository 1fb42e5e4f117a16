"""A flusher without a disk, for tests of what waits for a flush."""

from __future__ import annotations

import asyncio

from tests.support.loops.yields import loop_iterations
from tidelog.storage.log.partition_log import PartitionLog


class HeldFlusher:
    """A flusher whose flushes end when the test calls `finish`."""

    def __init__(self) -> None:
        self.flushes: list[asyncio.Future[None]] = []

    def flush(self, log: PartitionLog) -> asyncio.Future[None]:
        self.flushes.append(asyncio.get_running_loop().create_future())
        return self.flushes[-1]

    async def finish(self) -> None:
        """Complete all flushes and let the waiting requests continue."""
        for flush in self.flushes:
            flush.set_result(None)
        await loop_iterations(5)
