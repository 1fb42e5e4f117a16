"""Making logs durable without holding up the event loop: one fsync at a time per log, shared.

Whoever needs a log to be durable asks for it and awaits; all who ask while a flush is running
share the next one, so that a slow disk does not turn every request into an fsync of its own.

Errors: a failed fsync is never tried again. The log's directory is taken offline and those who
wait get KAFKA_STORAGE_ERROR. For lack of a descriptor no fsync is made: it is tried again until there is one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final

from tidelog.base.clock import Clock
from tidelog.protocol.errors import KafkaError
from tidelog.storage.disk.errors import StorageFailure, is_descriptor_shortage
from tidelog.storage.log.flush import FlushPlan
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.5


class Flusher:
    """Flushes logs in `executor`; `on_failure` takes the log's directory offline."""

    def __init__(
        self,
        executor: Executor,
        clock: Clock,
        on_failure: Callable[[PartitionLog, StorageFailure], None],
    ) -> None:
        self._executor = executor
        self._clock = clock
        self._on_failure = on_failure
        self._running: dict[PartitionLog, asyncio.Task[None]] = {}
        self._waiting: dict[PartitionLog, asyncio.Future[None]] = {}
        self._closing = asyncio.Event()

    def flush(self, log: PartitionLog) -> asyncio.Future[None]:
        """A future that is done once all that is in `log` now is durable."""
        loop = asyncio.get_running_loop()
        waiting = self._waiting.get(log)
        if waiting is None:
            waiting = self._waiting[log] = loop.create_future()
        if log not in self._running:
            self._running[log] = loop.create_task(self._run(log))
        return waiting

    async def close(self) -> None:
        """Wait for what is running; nothing is tried again."""
        self._closing.set()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _run(self, log: PartitionLog) -> None:
        try:
            while log in self._waiting:
                await self._flush_once(log, self._waiting.pop(log))
        finally:
            del self._running[log]

    async def _flush_once(self, log: PartitionLog, done: asyncio.Future[None]) -> None:
        try:
            plan = await self._run_plan(log)
        except Exception as error:
            # Also of a fault of our own nobody may wait for ever, or believe that his records are safe.
            if is_descriptor_shortage(error):
                _fail(done, log.storage_error("flush", error))
                return
            failure = _storage_failure(log, error)
            self._on_failure(log, failure)
            _fail(done, log.storage_error("flush", failure, is_final=True))
        else:
            log.flushed(plan, self._clock.wall_ms())
            if not done.done():
                done.set_result(None)

    async def _run_plan(self, log: PartitionLog) -> FlushPlan:
        """Sync what is in the log, as soon as there are descriptors for that; return what was synced."""
        while True:
            try:
                plan = log.flush_plan()
                await asyncio.get_running_loop().run_in_executor(self._executor, plan.run)
            except Exception as error:
                if not is_descriptor_shortage(error) or self._closing.is_set():
                    raise
                # It is reported by the log directory.
                log.storage_error("flush", error)
            else:
                return plan
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), RETRY_S)


def _storage_failure(log: PartitionLog, error: Exception) -> StorageFailure:
    if isinstance(error, StorageFailure):
        return error
    if not isinstance(error, OSError):
        logger.error("the flush of %s failed", log.directory, exc_info=error)
    return StorageFailure(log.directory, "fsync", getattr(error, "strerror", None) or str(error))


def _fail(done: asyncio.Future[None], error: KafkaError) -> None:
    if done.done():
        return
    done.set_exception(error)
    # Nobody may be waiting: housekeeping flushes without looking at the outcome.
    done.exception()
