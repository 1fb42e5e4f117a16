"""Waiting for a condition instead of for time to pass."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_PAUSE_S = 0.005


async def eventually(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """Return once `condition()` is true; AssertionError when that takes longer than `timeout_s`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    while not condition():
        assert loop.time() < deadline, f"the condition did not become true within {timeout_s} s"
        await asyncio.sleep(_PAUSE_S)


def wait_until(condition: Callable[[], object], timeout_s: float = 10.0) -> None:
    """The same for tests without an event loop of their own."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"the condition did not become true within {timeout_s} s"
        time.sleep(_PAUSE_S)
