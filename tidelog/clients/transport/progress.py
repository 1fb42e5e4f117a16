"""Waiting for a condition that another task changes (shell)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Progress:
    """The calls that wait for conditions; the task that changes a condition notifies them."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def notify(self) -> None:
        """Make all waiting calls check their conditions again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_until(self, is_done: Callable[[], bool], timeout_ms: int | None) -> None:
        """Wait until `is_done` returns True; raise TimeoutError after `timeout_ms` (None: no limit)."""
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while not is_done():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.add(waiter)
                try:
                    await waiter
                finally:
                    self._waiters.discard(waiter)
