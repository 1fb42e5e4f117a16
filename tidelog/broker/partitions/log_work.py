"""The port to the queue that creates and retires logs outside of the event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.directories.log_directory import Retirement


class LogWork(Protocol):
    """Creates and retires logs outside of the event loop; `LogWorkQueue` implements it."""

    def submit(self, planned: Sequence[LogCreation | Retirement], /) -> None:
        """Queue logs to create or retire; report outcomes to `ReplicaManager.on_log_work_done`."""

    def submit_plans(self, plans: Iterator[LogCreation | Retirement], /) -> None:
        """Queue the logs that `plans` returns; advance it when its turn comes, on the event loop."""

    def call_soon(self, callback: Callable[[], None], /) -> None:
        """Call `callback` in a later turn of the event loop, unless the queue is closed by then."""
