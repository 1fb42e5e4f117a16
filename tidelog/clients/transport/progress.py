"""Waiting for what another task brings about (shell): looked at again whenever that task says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Progress:
    """Who waits for a condition that others make true."""

    def __init__(self) -> None:
        self._waiters: set[asyncio.Future[None]] = set()

    def tell(self) -> None:
        """Something has changed: everybody looks again."""
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def wait_until(self, is_done: Callable[[], bool], timeout_ms: int | None) -> None:
        """Wait until `is_done` says so; TimeoutError after `timeout_ms` (None: never)."""
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            while not is_done():
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.add(waiter)
                try:
                    await waiter
                finally:
                    self._waiters.discard(waiter)
