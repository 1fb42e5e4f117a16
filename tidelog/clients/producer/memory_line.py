"""The line of senders that wait for room in a producer's buffer (shell)."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class MemoryLine:
    """First come, first served; bounded by the number of tasks that send."""

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._count = 0

    def __len__(self) -> int:
        """How many wait or have just been woken."""
        return self._count

    @property
    def is_empty(self) -> bool:
        """Whether a new sender may try at once."""
        return not self._waiters

    async def wait(self, timeout_ms: int, *, at_front: bool) -> None:
        """Stand in line until woken; TimeoutError after `timeout_ms`.

        `at_front` is for who was woken and still found no room.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if at_front:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        self._count += 1
        try:
            async with asyncio.timeout(max(0, timeout_ms) / 1000):
                await waiter
        except BaseException:
            if waiter.done():
                self.wake()  # our turn was wasted; the next one may have it
            raise
        finally:
            self._count -= 1
            with suppress(ValueError):
                self._waiters.remove(waiter)

    def wake(self) -> None:
        """Give the first in line its turn."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
