"""Polls that run in the background while the test uses other members of the group.

Some clients' `poll` does not return before a rebalance has ended, and a rebalance does not end
before all members have joined; in one thread that would wait for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

PolledRecords = Mapping[Any, list[Any]]


class BackgroundPoll:
    """Runs at most one poll at a time; the caller may fetch its result later."""

    def __init__(self, start: Callable[[], Future[Any]]) -> None:
        self._start = start
        self._running: Future[Any] | None = None

    def poll(self, timeout_s: float) -> PolledRecords:
        """Return the result of the poll, or nothing while it continues; raise its error."""
        if self._running is None:
            self._running = self._start()
        running = self._running
        try:
            running.exception(timeout_s)
        except TimeoutError:
            return {}
        self._running = None
        records: PolledRecords = running.result()
        return records
