"""Counts the responses of connections during a measurement, which lasts long enough to have some."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable
from typing import Any, Final

SELECT_S: Final = 1.0
EXTRA_S_MAX: Final = 30.0
"""The longest time after the intended end until there are enough responses."""


def count_responses(
    selector: selectors.BaseSelector,
    receive: Callable[[Any], int],
    ends_at: float,
    at_least: int = 0,
    now: Callable[[], float] = time.perf_counter,
) -> int:
    """Receive until `ends_at`, and further until there are `at_least` responses; return their number.

    `receive` takes the data of a readable connection and returns the number of its complete responses.
    Raises TimeoutError if there are too few responses EXTRA_S_MAX after `ends_at`.
    """
    responses = 0
    while (now_s := now()) < ends_at or responses < at_least:
        if now_s > ends_at + EXTRA_S_MAX:
            raise TimeoutError(
                f"{responses} responses until {EXTRA_S_MAX:g} s after the end, at least {at_least} are needed"
            )
        for key, _ in selector.select(SELECT_S):
            responses += receive(key.data)
    return responses
