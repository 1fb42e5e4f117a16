"""An event loop in a separate thread, so that a synchronous test can use asyncio clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from tests.support.foreign_clients.interface import DEADLINE_S

ResultT = TypeVar("ResultT")


class LoopThread:
    """An event loop in a daemon thread, which starts at the first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run a coroutine and return its result; TimeoutError after a minute."""
        return self.start(work).result(2 * DEADLINE_S)

    def start(self, work: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Start a coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="asyncio-clients", daemon=True).start()
            return self._loop


LOOP = LoopThread()
