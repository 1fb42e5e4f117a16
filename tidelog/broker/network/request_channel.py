"""The bound on requests that tasks process: Kafka's queued.max.requests.

A request that needs a task takes one of the places. When all are taken, further requests wait in the order
of their arrival, and their connections are muted. As in Kafka, a request that only waits for an event (in a
purgatory, for a rebalance) has no place, because it could block the request that completes it.

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
        """Call `start` when a place is free, unless the peer has disconnected by then."""
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
        """Cancel the running tasks and wait for their end."""
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
