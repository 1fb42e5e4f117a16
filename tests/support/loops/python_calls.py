"""Counts calls of Python functions: a measure of work that does not depend on the machine's load."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from types import FrameType


async def count_python_calls(action: Callable[[], Awaitable[None]]) -> int:
    """Return the number of Python functions that this thread calls until `action` has completed.

    The calls of other tasks and callbacks of the same event loop count as well.
    """
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        if event == "call":
            count += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        await action()
    finally:
        sys.setprofile(before)
    return count
