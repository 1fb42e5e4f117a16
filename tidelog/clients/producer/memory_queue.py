"""The queue of send calls that wait for buffer memory (shell)."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress


class MemoryQueue:
    """Wakes waiting calls in the order of their arrival; bounded by the number of tasks that send."""

    def __init__(self) -> None:
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._count = 0

    def __len__(self) -> int:
        """Return the number of calls that wait or were woken and have not continued yet."""
        return self._count

    @property
    def is_empty(self) -> bool:
        """Whether a new call may try to append without waiting."""
        return not self._waiters

    async def wait(self, timeout_ms: int, *, at_front: bool) -> None:
        """Wait until woken; raise TimeoutError after `timeout_ms`.

        `at_front` is for a call that was woken and still found too little memory.
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
                self.wake()  # this call was woken but has ended: wake the next one
            raise
        finally:
            self._count -= 1
            with suppress(ValueError):
                self._waiters.remove(waiter)

    def wake(self) -> None:
        """Wake the first waiting call."""
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
