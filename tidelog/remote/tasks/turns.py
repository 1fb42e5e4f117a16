"""How many partitions are worked on at once: turns, given in the order in which they were asked for."""

from __future__ import annotations

import asyncio
from collections import deque


class Turns:
    """At most `limit` at once. Kafka's pools bound the same: one thread there is one turn here.

    A partition has a turn for all steps of its work. So no more copies are noted as begun than are copied.
    """

    __slots__ = ("_limit", "_taken", "_waiting")

    def __init__(self, limit: int) -> None:
        assert limit >= 1, limit
        self._limit = limit
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def taken(self) -> int:
        """How many are at work."""
        return self._taken

    @property
    def idle_share(self) -> float:
        """The share of turns that nobody has, from 0 to 1; Kafka's ...TaskAvgIdlePercent."""
        return max(0.0, 1.0 - self._taken / self._limit)

    def resize(self, limit: int) -> None:
        """Allow more at once from now on, or fewer when those at work are done."""
        assert limit >= 1, limit
        self._limit = limit
        self._give()

    async def __aenter__(self) -> None:
        if self._taken < self._limit and not self._waiting:
            self._taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._taken -= 1
                self._give()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._taken -= 1
        self._give()

    def _give(self) -> None:
        while self._waiting and self._taken < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._taken += 1
                turn.set_result(None)
