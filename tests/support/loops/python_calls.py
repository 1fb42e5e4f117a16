"""Counts calls of functions: a measure of work that does not depend on the machine's load."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import TypeVar

T = TypeVar("T")


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


def count_all_calls(action: Callable[[], T]) -> tuple[T, int]:
    """Return the result of `action`, and the number of functions that it calls, in Python and in C."""
    events: Counter[str] = Counter()
    before = sys.getprofile()
    sys.setprofile(lambda _frame, event, _argument: events.update((event,)))
    try:
        result = action()
    finally:
        sys.setprofile(before)
    return result, events["call"] + events["c_call"]
