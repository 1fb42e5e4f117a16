"""The garbage collections of a broker process: young ones are short, full ones run only if memory has grown.

A full collection visits all objects and blocks the event loop meanwhile: about 150 ms with 2,000 partitions.
Python starts one after a number of new objects, so that a few requests with 100,000 elements each would start
it. Reference counting releases nearly everything here, because connections, requests and partitions break
their reference cycles when they end, and young collections find the cycles of short-lived objects. Only old
objects in a cycle are left for a full collection, and they make memory grow. It therefore runs if the objects
take twice the memory that they took after the last one. A node in a steady state runs none. Garbage in cycles
never takes more memory than the rest, or GROWTH_BLOCKS_MIN.

I/O: the collector of the process; timers of the event loop.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from typing import Final

THRESHOLDS: Final = (1_000, 10, 1_000_000)
"""See `gc.set_threshold`; Python's defaults are 700, 10, 10. Young collections take about 2 ms."""

CHECK_INTERVAL_S: Final = 3_600.0
"""The interval between two checks whether memory has grown."""

GROWTH_BLOCKS_MIN: Final = 500_000
"""The number of new blocks of memory below which no full collection runs: about 40 MiB."""


class GarbageCollection:
    """Sets the collector up for a process that only runs a broker."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        count_blocks: Callable[[], int] = sys.getallocatedblocks,
    ) -> None:
        """Use `count_blocks` for the number of memory blocks of all objects."""
        self._loop = loop
        self._count_blocks = count_blocks
        self._blocks_after_collection = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Make the objects of the start permanent, and schedule the first check.

        A collection of the permanent objects, mainly of the models of an S3 client, would take 40 ms.
        """
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
        self._blocks_after_collection = self._count_blocks()
        self._schedule()

    def stop(self) -> None:
        """Schedule no further check."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._timer = self._loop.call_later(CHECK_INTERVAL_S, self._check)

    def _check(self) -> None:
        """Run a full collection if the objects take twice the memory, and schedule the next check."""
        growth = self._count_blocks() - self._blocks_after_collection
        if growth >= max(self._blocks_after_collection, GROWTH_BLOCKS_MIN):
            gc.collect()
            self._blocks_after_collection = self._count_blocks()
        self._schedule()
