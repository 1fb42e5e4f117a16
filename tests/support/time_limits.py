"""Calls with a time limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

_Result = TypeVar("_Result")


def result_within(call: Callable[[], _Result], timeout_s: float = 40.0) -> _Result:
    """Return the result of `call` or its error; AssertionError after `timeout_s`."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout_s)
    assert outcome, f"the call did not end within {timeout_s} s"
    error: BaseException | None = outcome[0][1]
    if error is not None:
        raise error
    result: _Result = outcome[0][0]
    return result
