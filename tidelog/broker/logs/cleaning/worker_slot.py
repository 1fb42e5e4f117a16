"""The worker of one cleaner: started on demand, stopped when idle, restarted with a back-off.

    no worker --acquire--> running --idle for IDLE_MS, or died--> no worker

After a death, `acquire` raises WorkerDied until the back-off has passed, which grows with each death in a
row.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from typing import Final

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import Clock
from tidelog.broker.logs.cleaning.worker_process import CleaningWorker, StartWorker

IDLE_MS: Final = 60_000
_LONG_MS: Final = 2**31
BACKOFF: Final = ExponentialBackoff(initial_ms=1_000, max_ms=300_000, jitter=0.0)


class WorkerSlot:
    """The worker of one cleaner; `thread` starts and stops it."""

    def __init__(self, start_worker: StartWorker, thread: Executor, clock: Clock) -> None:
        self._start_worker = start_worker
        self._thread = thread
        self._clock = clock
        self._worker: CleaningWorker | None = None
        self._used_ms = 0
        self._deaths = 0
        self._retry_ms = 0

    @property
    def is_available(self) -> bool:
        """Whether a worker runs, or may be started now."""
        return self._worker is not None or self._clock.monotonic_ms() >= self._retry_ms

    @property
    def idle_ms_left(self) -> int:
        """After how long the worker must be stopped if it is not used; long if there is none."""
        return max(0, self._used_ms + IDLE_MS - self._clock.monotonic_ms()) if self._worker else _LONG_MS

    @property
    def backoff_ms(self) -> int:
        """How long no worker may be started."""
        return max(0, self._retry_ms - self._clock.monotonic_ms())

    async def acquire(self) -> CleaningWorker:
        """Return the worker; start it if there is none. Errors: WorkerDied."""
        self._used_ms = self._clock.monotonic_ms()
        if self._worker is None:
            starting = asyncio.get_running_loop().run_in_executor(self._thread, self._start_worker)
            try:
                self._worker = await asyncio.shield(starting)
            except asyncio.CancelledError:
                await asyncio.wait([starting])
                if starting.exception() is None:
                    self._worker = starting.result()
                raise
        return self._worker

    def on_round_completed(self) -> None:
        """Record that the worker has completed a round."""
        self._deaths = 0
        self._used_ms = self._clock.monotonic_ms()

    async def on_died(self) -> None:
        """Remove the worker, which has died or did not start; begin the back-off."""
        self._retry_ms = self._clock.monotonic_ms() + BACKOFF.base_delay_ms(self._deaths)
        self._deaths += 1
        await self.stop()

    async def stop_if_idle(self) -> None:
        """Stop a worker that was not used for a while."""
        if not self.idle_ms_left:
            await self.stop()

    async def stop(self) -> None:
        """Stop the worker if there is one."""
        worker, self._worker = self._worker, None
        if worker is not None:
            stopping = asyncio.get_running_loop().run_in_executor(self._thread, worker.close)
            await asyncio.shield(stopping)
