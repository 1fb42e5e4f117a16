"""The bound on requests that tasks process: Kafka's queued.max.requests.

A request that needs a task takes a slot. When no slot is free, further requests wait in the order of their
arrival, and their connections are muted. As in Kafka, a request that only waits for an event (in a
purgatory, or for a rebalance) takes no slot, because it could block the request that completes it.

Bounds: `limit` tasks; at most one waiting request per connection.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from typing import Any

from tidelog.broker.network.request import Request


class RequestChannel:
    """Slots for the tasks of slow requests, assigned in the order of arrival."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running_count = 0
        self._waiting: OrderedDict[Request, Callable[[], None]] = OrderedDict()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def waiting_count(self) -> int:
        """The number of requests that wait for a slot."""
        return len(self._waiting)

    def submit(self, request: Request, start: Callable[[], None]) -> None:
        """Call `start` when a slot is free, unless the peer has disconnected by then."""
        if self.running_count < self.limit and not self._waiting:
            start()
            return
        self._waiting[request] = start
        request.begin_waiting(self._on_abandoned)

    def run(
        self,
        work: Coroutine[Any, Any, Any],
        on_done: Callable[[asyncio.Future[Any]], None],
        *,
        uses_slot: bool,
    ) -> asyncio.Task[Any]:
        """Run `work` as a task and return the task; `on_done` is called with it when it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        self.running_count += uses_slot
        task.add_done_callback(lambda ended: self._on_task_done(ended, on_done, uses_slot))
        return task

    async def close(self) -> None:
        """Cancel the running tasks and wait for their end."""
        self._waiting.clear()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_task_done(
        self, task: asyncio.Task[Any], on_done: Callable[[asyncio.Future[Any]], None], used_slot: bool
    ) -> None:
        self._tasks.discard(task)
        self.running_count -= used_slot
        try:
            on_done(task)
        finally:
            while self._waiting and self.running_count < self.limit:
                request, start = self._waiting.popitem(last=False)
                request.end_waiting()
                request.end_queue_time()
                start()

    def _on_abandoned(self, request: Request) -> None:
        self._waiting.pop(request, None)
