"""Unhandled errors that an event loop reports: exceptions of futures, and tasks that never ended."""

from __future__ import annotations

import asyncio
import gc
from typing import Any


class UnhandledErrors:
    """Collects the errors that `loop` reports after the construction."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._reports: list[str] = []
        loop.set_exception_handler(self._report)

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        subject = context.get("future") or context.get("task") or context.get("handle")
        self._reports.append(f"{context['message']}: {context.get('exception')!r} of {subject!r}")

    async def collect_reports(self) -> list[str]:
        """Return the reports after a garbage collection."""
        for _ in range(3):
            await asyncio.sleep(0)
            gc.collect()
        return list(self._reports)


def other_tasks() -> list[asyncio.Task[Any]]:
    """Return the tasks of the running loop except the current one."""
    current = asyncio.current_task()
    return [task for task in asyncio.all_tasks() if task is not current]
