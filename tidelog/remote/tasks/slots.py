"""A limit on the number of partitions that are processed concurrently."""

from __future__ import annotations

import asyncio
from collections import deque


class TaskSlots:
    """A semaphore of `limit` slots, which are assigned in the order of the requests.

    One slot corresponds to a thread of Kafka's pools. A partition holds its slot for all steps of its work.
    Therefore no more copies are started in the metadata than are being copied.
    """

    __slots__ = ("_in_use", "_limit", "_waiting")

    def __init__(self, limit: int) -> None:
        assert limit >= 1, limit
        self._limit = limit
        self._in_use = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def resize(self, limit: int) -> None:
        """Allow more holders from now on, or fewer as soon as slots are released."""
        assert limit >= 1, limit
        self._limit = limit
        self._assign_free_slots()

    async def __aenter__(self) -> None:
        if self._in_use < self._limit and not self._waiting:
            self._in_use += 1
            return
        slot = asyncio.get_running_loop().create_future()
        self._waiting.append(slot)
        try:
            await slot
        except asyncio.CancelledError:
            if slot.done() and not slot.cancelled():
                self._in_use -= 1
                self._assign_free_slots()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._in_use -= 1
        self._assign_free_slots()

    def _assign_free_slots(self) -> None:
        while self._waiting and self._in_use < self._limit:
            slot = self._waiting.popleft()
            if not slot.done():
                self._in_use += 1
                slot.set_result(None)
