"""The garbage collections of a broker process: young ones are short, full ones are rare.

A full collection visits all objects and blocks the event loop meanwhile: about 150 ms with 2,000 partitions.
Python starts one after a number of new objects, so that a few requests with 100,000 elements each would start
it. Reference counting releases nearly everything here, because connections, requests and partitions break
their reference cycles when they end. Full collections therefore run at a long interval only.

I/O: the collector of the process; timers of the event loop.
"""

from __future__ import annotations

import asyncio
import gc
from typing import Final

THRESHOLDS: Final = (1_000, 10, 1_000_000)
"""See `gc.set_threshold`; Python's defaults are 700, 10, 10. Young collections take about 2 ms."""

FULL_COLLECTION_INTERVAL_S: Final = 3_600.0


class GarbageCollection:
    """Sets the collector up for a process that only runs a broker."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Make the objects of the start permanent, and schedule full collections.

        A collection of the permanent objects, mainly of the models of an S3 client, would take 40 ms.
        """
        gc.freeze()
        gc.set_threshold(*THRESHOLDS)
        self._schedule()

    def stop(self) -> None:
        """Schedule no further full collection."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._timer = self._loop.call_later(FULL_COLLECTION_INTERVAL_S, self._collect)

    def _collect(self) -> None:
        gc.collect()
        self._schedule()
