"""Iterations of the event loop: run some, or count those in which long work lets other tasks run."""

from __future__ import annotations

import asyncio

from tidelog.broker.scheduling.slices import SLICE_NS, Slices

STEPS_PER_SLICE = 10


async def loop_iterations(count: int = 20) -> None:
    """Run `count` iterations of the event loop."""
    for _ in range(count):
        await asyncio.sleep(0)


class CountingClock:
    """A clock that advances by a tenth of a slice whenever it is read."""

    def __init__(self) -> None:
        self._now_ns = 0

    def monotonic_ns(self) -> int:
        self._now_ns += SLICE_NS // STEPS_PER_SLICE
        return self._now_ns

    def monotonic_ms(self) -> int:
        return self.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        return self.monotonic_ms()


def counted_slices() -> Slices:
    """Return slices of ten steps each."""
    return Slices(CountingClock())


class IterationCounter:
    """Counts the iterations in which another task runs."""

    def __init__(self) -> None:
        self.count = 0
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(0)
            self.count += 1

    def stop(self) -> None:
        """Stop counting."""
        self._task.cancel()
