"""Something that runs again and again, never twice at once: every so often, and sooner after a failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from tidelog.base.randomness import Randomness
from tidelog.clients.transport.backoff import ExponentialBackoff
from tidelog.remote.ports.metadata_manager import RemoteMetadataNotReady
from tidelog.remote.tasks.turns import Turns

_log = logging.getLogger(__name__)


class PeriodicTask:
    """Runs `work` at once, and then `interval_ms` after the end of each run.

    After a failure the next run comes after a backoff that doubles. Between runs there is a timer and no
    task, as there are thousands of these. `predecessor`, if any, is over before the first run begins.
    """

    __slots__ = (
        "_backoff",
        "_failures",
        "_interval_ms",
        "_is_stopped",
        "_loop",
        "_name",
        "_predecessor",
        "_randomness",
        "_run",
        "_timer",
        "_turns",
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
        turns: Turns,
        predecessor: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._name = name
        self._work = work
        self._interval_ms = interval_ms
        self._backoff = backoff
        self._randomness = randomness
        self._turns = turns
        self._predecessor = predecessor
        self._failures = 0
        self._is_stopped = False
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._run: asyncio.Task[None] | None = None
        self._begin()

    @property
    def is_running(self) -> bool:
        """Whether a run has begun, or waits for its turn, and has not ended."""
        return self._run is not None

    def stop(self) -> None:
        """Begin no further run; one that is under way goes on to its end, see `ended`."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def cancel(self) -> None:
        """Break off a run that is under way, wherever it is."""
        self.stop()
        if self._run is not None:
            self._run.cancel()

    async def ended(self) -> None:
        """Return once nothing of it runs; after `stop` for good. Whoever waits may give up waiting."""
        if self._run is not None:
            await asyncio.wait([self._run])

    def _begin(self) -> None:
        self._timer = None
        self._run = self._loop.create_task(self._run_once(), name=self._name)
        self._run.add_done_callback(self._run_ended)

    async def _run_once(self) -> None:
        if self._predecessor is not None:
            await self._predecessor()
            self._predecessor = None
        if self._is_stopped:
            return
        async with self._turns:
            if self._is_stopped:
                return
            try:
                await self._work()
                self._failures = 0
            except RemoteMetadataNotReady as error:
                self._failures += 1
                _log.debug("%s: %s", self._name, error)
            except Exception as error:
                self._failures += 1
                if not self._is_stopped:
                    _log.warning("%s failed, it is tried again: %s", self._name, error, exc_info=error)

    def _run_ended(self, run: asyncio.Task[None]) -> None:
        self._run = None
        if run.cancelled() or run.exception() is not None or self._is_stopped:
            return
        delay_ms = self._interval_ms()
        if self._failures:
            delay_ms = min(delay_ms, self._backoff.delay_ms(self._failures - 1, self._randomness))
        self._timer = self._loop.call_later(delay_ms / 1000, self._begin)
