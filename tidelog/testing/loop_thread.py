"""An event loop in a thread of its own, for nodes inside a synchronous test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

ResultT = TypeVar("ResultT")


class LoopThread:
    """A running event loop; `close` at the end."""

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="tidelog-embedded", daemon=True)
        self._thread.start()

    def complete(self, work: Coroutine[Any, Any, ResultT], timeout_s: float) -> ResultT:
        """Return the result of `work` on the loop. Raise TimeoutError after `timeout_s`."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def close(self, timeout_s: float) -> None:
        """Stop the loop, and wait at most `timeout_s` for the end of the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
