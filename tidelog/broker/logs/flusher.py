"""Makes logs durable without blocking the event loop: at most one flush per log runs at a time.

All callers that request a flush while one runs share the next flush. A slow disk therefore does not need one
fsync per request.

Errors: a failed fsync is never repeated. The log's directory goes offline, and the callers get
KAFKA_STORAGE_ERROR. If there is no free descriptor, the flush is retried until there is one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

from tidelog.base.clock import Clock
from tidelog.base.time_histogram import TimeHistogram
from tidelog.broker.scheduling.bounded_gather import bounded_gather
from tidelog.protocol.errors import KafkaError
from tidelog.storage.disk.errors import StorageFailure, is_descriptor_shortage
from tidelog.storage.log.flush import FlushPlan
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.5
"""The pause until a flush is retried that found no free descriptor."""
FLUSHES_AT_ONCE: Final = 8
"""The number of logs that `flush_all` flushes at the same time: they share commits of the journal."""


class Flusher:
    """Flushes logs in `executor`.

    `on_flushed` is called with a log after each of its flushes; `on_failure` must set its directory offline.
    """

    def __init__(
        self,
        executor: Executor,
        clock: Clock,
        on_flushed: Callable[[PartitionLog], None],
        on_failure: Callable[[PartitionLog, StorageFailure], None],
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._running: dict[PartitionLog, asyncio.Task[None]] = {}
        self._waiting: dict[PartitionLog, asyncio.Future[None]] = {}
        self._paused: set[PartitionLog] = set()
        self._closing = asyncio.Event()
        self.times = TimeHistogram()
        """The times of successful flushes, without the time that they waited for a thread."""

    def flush(self, log: PartitionLog) -> asyncio.Future[None]:
        """Return a future that is done when the current content of `log` is durable."""
        loop = asyncio.get_running_loop()
        future = self._waiting.get(log)
        if future is None:
            future = self._waiting[log] = loop.create_future()
        self._start(log)
        return future

    async def flush_all(self, logs: Iterable[PartitionLog], timeout_s: float) -> None:
        """Flush the logs with records that are not durable, FLUSHES_AT_ONCE at a time, and ignore failures.

        After `timeout_s` no flush is started any more; those in progress continue.
        """
        unflushed = [log for log in logs if log.durability.recovery_point < log.log_end_offset]
        # The future is shared with other callers, so that the timeout must not cancel it.
        flushes = (asyncio.wait([self.flush(log)]) for log in unflushed)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await bounded_gather(flushes, FLUSHES_AT_ONCE)

    def _start(self, log: PartitionLog) -> None:
        if log not in self._running and log not in self._paused:
            self._running[log] = asyncio.get_running_loop().create_task(self._run(log))

    async def pause(self, log: PartitionLog) -> None:
        """Wait for the running flush of `log`, and start none until `resume`: its files are replaced."""
        self._paused.add(log)
        running = self._running.get(log)
        if running is not None:
            await asyncio.wait([running])

    def resume(self, log: PartitionLog) -> None:
        """Start the flush that was requested since `pause`, if any."""
        self._paused.discard(log)
        if log in self._waiting:
            self._start(log)

    async def close(self) -> None:
        """Wait for the running flushes; retry none of them."""
        self._closing.set()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, log: PartitionLog) -> None:
        try:
            while log in self._waiting and log not in self._paused:
                await self._flush_once(log, self._waiting.pop(log))
        finally:
            del self._running[log]

    async def _flush_once(self, log: PartitionLog, done: asyncio.Future[None]) -> None:
        try:
            plan = await self._run_plan(log)
        except Exception as error:
            # After an error of any kind, no caller may wait forever or assume that its records are durable.
            if is_descriptor_shortage(error):
                _fail(done, log.failures.storage_error("flush", error))
                return
            failure = _storage_failure(log, error)
            self._on_failure(log, failure)
            _fail(done, log.failures.storage_error("flush", failure, is_final=True))
        else:
            log.durability.flushed(plan, self._clock.wall_ms())
            if not done.done():
                done.set_result(None)
            self._on_flushed(log)

    async def _run_plan(self, log: PartitionLog) -> FlushPlan:
        """Flush the log as soon as there are free descriptors; return the plan that was executed."""
        while True:
            try:
                plan = log.durability.flush_plan()
                elapsed_ns = await asyncio.get_running_loop().run_in_executor(
                    self._executor, self._run_timed, plan
                )
            except Exception as error:
                if not is_descriptor_shortage(error) or self._closing.is_set():
                    raise
                # The log directory reports it.
                log.failures.storage_error("flush", error)
            else:
                self.times.observe(elapsed_ns)
                return plan
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), RETRY_S)

    def _run_timed(self, plan: FlushPlan) -> int:
        """Flush in the calling thread; return the time that it took."""
        began_ns = self._clock.monotonic_ns()
        plan.run()
        return self._clock.monotonic_ns() - began_ns


def _storage_failure(log: PartitionLog, error: Exception) -> StorageFailure:
    if isinstance(error, StorageFailure):
        return error
    if not isinstance(error, OSError):
        logger.error("Cannot flush %s", log.directory, exc_info=error)
    return StorageFailure(log.directory, "fsync", getattr(error, "strerror", None) or str(error))


def _fail(done: asyncio.Future[None], error: KafkaError) -> None:
    if done.done():
        return
    done.set_exception(error)
    # Retrieved here, because housekeeping requests flushes without waiting for the outcome.
    done.exception()
