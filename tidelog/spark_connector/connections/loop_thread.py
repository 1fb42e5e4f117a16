"""An event loop in its own thread, for the synchronous calls from Spark.

The loop keeps running between calls, so that the next fetch arrives while the last one is decoded.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from types import TracebackType
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class LoopThread:
    """Runs coroutines and waits for them; use it as a context manager, or call `close`.

    There is no timeout here: the coroutines have their own.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run `work`, and return its result or raise its error."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def iterate(self, items: AsyncGenerator[ResultT, None]) -> Iterator[ResultT]:
        """Yield the items, each requested when the one before has been processed; always close `items`."""

        async def next_item() -> tuple[ResultT] | None:
            async for item in items:
                return (item,)
            return None

        try:
            while (next_or_none := self.run(next_item())) is not None:
                yield next_or_none[0]
        finally:
            self.run(_close(items))

    def close(self) -> None:
        """Stop the loop and its thread."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def __enter__(self) -> LoopThread:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()


async def _close(items: AsyncGenerator[ResultT, None]) -> None:
    await items.aclose()
