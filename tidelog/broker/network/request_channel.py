"""The bound on requests that are being worked on by tasks: Kafka's queued.max.requests.

A request that needs a task takes one of the places; when all are taken, further ones wait in the
order they came, each with its connection muted. Requests that merely wait for something to
happen (a purgatory, a rebalance) hold no place, as in Kafka, else those that would
end the wait could not get in.

Bounds: `limit` tasks; at most one waiting request per connection.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from tidelog.broker.network.request import Request


class RequestChannel:
    """Places for slow requests, handed out in order."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self._waiting: OrderedDict[Request, Callable[[], None]] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def waiting(self) -> int:
        """Requests that wait for a place."""
        return len(self._waiting)

    def enter(self, request: Request, start: Callable[[], None]) -> None:
        """Call `start` now if there is a place, else when one is free; not at all if the peer goes first."""
        if self.running < self.limit and not self._waiting:
            start()
            return
        self._waiting[request] = start
        request.on_abandoned = self._abandoned

    def run(
        self,
        work: Coroutine[Any, Any, Any],
        done: Callable[[asyncio.Future[Any]], None],
        *,
        takes_place: bool,
    ) -> asyncio.Task[Any]:
        """Run `work` as a task, which is returned, and call `done` with it at the end."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        self.running += takes_place
        task.add_done_callback(lambda ended: self._ended(ended, done, takes_place))
        return task

    async def close(self) -> None:
        """Cancel what still runs and wait for its end."""
        self._waiting.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(
        self, task: asyncio.Task[Any], done: Callable[[asyncio.Future[Any]], None], took_place: bool
    ) -> None:
        self._tasks.discard(task)
        self.running -= took_place
        try:
            done(task)
        finally:
            while self._waiting and self.running < self.limit:
                request, start = self._waiting.popitem(last=False)
                request.on_abandoned = None
                start()

    def _abandoned(self, request: Request) -> None:
        self._waiting.pop(request, None)
