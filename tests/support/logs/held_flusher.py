"""A flusher whose flushes end when the test says so, for tests of what waits for a flush."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.support.clocks.manual_clock import NOW_MS
from tests.support.loops.yields import loop_iterations
from tidelog.storage.log.partition_log import PartitionLog


class HeldFlusher:
    """A flusher whose flushes end when the test calls `finish` or `fail`."""

    def __init__(self, on_flushed: Callable[[PartitionLog], None]) -> None:
        """`on_flushed` is called with each log that has been flushed."""
        self._on_flushed = on_flushed
        self._waiting: dict[PartitionLog, asyncio.Future[None]] = {}

    @property
    def has_waiting(self) -> bool:
        """Whether a flush has been requested and is not finished."""
        return bool(self._waiting)

    def flush(self, log: PartitionLog) -> asyncio.Future[None]:
        """Return a future that is done after the next `finish` or `fail`."""
        future = self._waiting.get(log)
        if future is None:
            future = self._waiting[log] = asyncio.get_running_loop().create_future()
        return future

    async def finish(self) -> None:
        """Flush all waiting logs and let the waiting requests continue."""
        for log, future in self._take():
            log.flush(NOW_MS)
            self._on_flushed(log)
            future.set_result(None)
        await loop_iterations(5)

    async def fail(self, error: Exception) -> None:
        """Let all waiting flushes fail."""
        for _, future in self._take():
            future.set_exception(error)
        await loop_iterations(5)

    def _take(self) -> list[tuple[PartitionLog, asyncio.Future[None]]]:
        waiting = list(self._waiting.items())
        self._waiting.clear()
        return waiting
