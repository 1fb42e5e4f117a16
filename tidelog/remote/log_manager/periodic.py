"""A task that runs periodically, never twice at the same time, and earlier after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.randomness import Randomness
from tidelog.remote.ports.metadata_manager import RemoteMetadataError, RemoteMetadataNotReady
from tidelog.remote.ports.storage_manager import RemoteStorageError, StoreUnavailable
from tidelog.remote.tasks.slots import TaskSlots

_EXPECTED: Final = (RemoteStorageError, RemoteMetadataError, OSError)

_log = logging.getLogger(__name__)


class PeriodicTask:
    """Runs `work` at once, and then `interval_ms` after the end of each run.

    After a failure, the next run follows after an exponential backoff, which may exceed the interval. One
    line reports the first failure, and one the end of the failures. An outage of the store is reported for
    all tasks by its observer. Between runs there is a timer and no task, because there are thousands of these
    objects. The first run begins after `predecessor`, if any, has returned.
    """

    __slots__ = (
        "_backoff",
        "_failures",
        "_interval_ms",
        "_is_stopped",
        "_loop",
        "_name",
        "_not_ready",
        "_predecessor",
        "_randomness",
        "_run",
        "_slots",
        "_timer",
        "_work",
    )

    def __init__(
        self,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        interval_ms: Callable[[], int],
        backoff: ExponentialBackoff,
        randomness: Randomness,
        slots: TaskSlots,
        predecessor: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._name = name
        self._work = work
        self._interval_ms = interval_ms
        self._backoff = backoff
        self._randomness = randomness
        self._slots = slots
        self._predecessor = predecessor
        self._failures = 0
        self._not_ready = 0
        self._is_stopped = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._run: asyncio.Task[None] | None = None
        self._start_run()

    def stop(self) -> None:
        """Start no further run; a run in progress continues, see `wait_until_ended`."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def cancel(self) -> None:
        """Cancel a run in progress."""
        self.stop()
        if self._run is not None:
            self._run.cancel()

    async def wait_until_ended(self) -> None:
        """Return when no run is in progress; after `stop`, no run follows. The caller may cancel the wait."""
        if self._run is not None:
            await asyncio.wait([self._run])

    def _start_run(self) -> None:
        self._timer = None
        self._run = self._loop.create_task(self._run_once(), name=self._name)
        self._run.add_done_callback(self._on_run_ended)

    async def _run_once(self) -> None:
        if self._predecessor is not None:
            await self._predecessor()
            self._predecessor = None
        if self._is_stopped:
            return
        async with self._slots:
            if self._is_stopped:
                return
            try:
                await self._work()
                self._on_success()
            except RemoteMetadataNotReady as error:
                self._not_ready += 1
                _log.debug("%s: %s", self._name, error)
            except Exception as error:
                self._on_failure(error)

    def _on_success(self) -> None:
        if self._failures > 1:
            _log.info("Task %s succeeded after %d failures", self._name, self._failures)
        self._failures = self._not_ready = 0

    def _on_failure(self, error: Exception) -> None:
        self._failures += 1
        if self._is_stopped:
            return
        is_first = self._failures == 1 and not isinstance(error, StoreUnavailable)
        is_expected = isinstance(error, _EXPECTED)
        _log.log(
            logging.WARNING if is_first else logging.DEBUG,
            "Task %s failed; retrying: %s",
            self._name,
            error,
            exc_info=None if is_expected else error,
        )

    def _on_run_ended(self, run: asyncio.Task[None]) -> None:
        self._run = None
        if run.cancelled() or run.exception() is not None or self._is_stopped:
            return
        delay_ms = self._interval_ms()
        if self._failures:
            delay_ms = self._backoff.delay_ms(self._failures - 1, self._randomness)
        elif self._not_ready:
            delay_ms = min(delay_ms, self._backoff.delay_ms(self._not_ready - 1, self._randomness))
        self._timer = self._loop.call_later(delay_ms / 1000, self._start_run)
