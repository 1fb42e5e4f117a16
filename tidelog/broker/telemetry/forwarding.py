"""Forwards the metrics of clients to a destination that may be slow or unavailable.

Metrics wait in a queue. A task writes them in batches, in a thread, and repeats a batch until it is written.

Bounds: `QUEUE_BYTES_MAX` of memory in the queue, further metrics are dropped and counted; `BATCH_BYTES_MAX`
at a time, or one push.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import Clock
from tidelog.base.log_limit import LogLimit
from tidelog.base.outage import Outage
from tidelog.base.randomness import Randomness
from tidelog.broker.telemetry.pushed_metrics import PushedMetrics
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

QUEUE_BYTES_MAX: Final = 64 * 1024 * 1024
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024
BACKOFF: Final = ExponentialBackoff(initial_ms=500, max_ms=10_000)


class RejectedMetrics(Exception):
    """The destination rejects a batch, and would also reject it later."""


class Destination(Protocol):
    """A collector, or a file. Its methods are called in threads."""

    name: str

    def write(self, batch: Sequence[PushedMetrics]) -> None:
        """Write a batch. Errors: OSError if it is to be repeated, RejectedMetrics if that is of no use."""
        ...


class Forwarding:
    """The queue of one destination, from `start` to `close`."""

    def __init__(self, destination: Destination, clock: Clock, randomness: Randomness) -> None:
        self.dropped_count = 0
        """The total of pushes that were dropped: the queue was full, or the destination rejected them."""
        self._destination = destination
        self._queue: deque[PushedMetrics] = deque()
        self._queued_bytes = 0
        self._is_filled = asyncio.Event()
        self._randomness = randomness
        self._outage = Outage(
            f"Forwarding metrics of clients to {destination.name}", clock, randomness, BACKOFF
        )
        self._log_limit = LogLimit(clock.monotonic_ms)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start to write."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Stop to write; metrics in the queue are dropped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def receive(self, metrics: PushedMetrics) -> Steps[None]:
        """Add the metrics of one push to the queue."""
        if self._queued_bytes + metrics.memory_bytes > QUEUE_BYTES_MAX:
            self.dropped_count += 1
        else:
            self._queue.append(metrics)
            self._queued_bytes += metrics.memory_bytes
            self._is_filled.set()
        yield None

    async def _run(self) -> None:
        while True:
            await self._is_filled.wait()
            batch = self._next_batch()
            attempts = 0
            while not await self._write(batch):
                await asyncio.sleep(BACKOFF.delay_ms(attempts, self._randomness) / 1000)
                attempts += 1
            for metrics in batch:
                self._queue.popleft()
                self._queued_bytes -= metrics.memory_bytes
            if not self._queue:
                self._is_filled.clear()

    def _next_batch(self) -> list[PushedMetrics]:
        """Return the oldest metrics, which stay in the queue until they are written."""
        batch: list[PushedMetrics] = []
        memory_bytes = 0
        for metrics in self._queue:
            if batch and memory_bytes + metrics.memory_bytes > BATCH_BYTES_MAX:
                break
            batch.append(metrics)
            memory_bytes += metrics.memory_bytes
        return batch

    async def _write(self, batch: Sequence[PushedMetrics]) -> bool:
        try:
            await asyncio.to_thread(self._destination.write, batch)
        except OSError as error:
            self._outage.on_failure(str(error) or type(error).__name__)
            return False
        except RejectedMetrics as error:
            self.dropped_count += len(batch)
            text = "%s rejected metrics of clients, which are dropped: %s"
            self._log_limit.log(logger, logging.WARNING, text, self._destination.name, error)
            return True
        self._outage.on_success()
        return True
