"""The port to the timers of the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call; has no effect after the call."""


class Timer(Protocol):
    """Calls functions after a delay; `tidelog.broker.purgatory.timers.Timers` is one."""

    def schedule(self, delay_ms: int, callback: Callable[[], None]) -> TimerHandle:
        """Call `callback` in `delay_ms`."""
        ...
