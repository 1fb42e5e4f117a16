"""Waiting for a condition: `wait_until` and `wait_for_value` for plain tests, `eventually` for coroutines.

No test sleeps in order to wait. `remains` checks that something does not happen.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

TIMEOUT_S = 60.0
ResultT = TypeVar("ResultT")
_FIRST_PAUSE_S = 0.001
_LONGEST_PAUSE_S = 0.02


class _Attempts:
    """Counts the pauses between two checks of one condition, which become longer up to a limit."""

    def __init__(self, condition: Callable[[], object], what: str | None, timeout_s: float) -> None:
        self._condition = condition
        self._what = what
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._pause_s = _FIRST_PAUSE_S

    def next_pause_s(self) -> float:
        """Return how long to wait before the next check; AssertionError after the deadline."""
        if time.monotonic() >= self._deadline:
            what = self._what or _source(self._condition)
            raise AssertionError(f"not within {self._timeout_s:g} s: {what}")
        pause_s = self._pause_s
        self._pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        return pause_s


def wait_until(
    condition: Callable[[], object], what: str | None = None, *, timeout_s: float = TIMEOUT_S
) -> None:
    """Return once `condition()` is true.

    Raises AssertionError after `timeout_s`, with `what` or else the source of `condition`.
    """
    attempts = _Attempts(condition, what, timeout_s)
    while not condition():
        time.sleep(attempts.next_pause_s())


def wait_for_value(value_of: Callable[[], ResultT | None], *, timeout_s: float = TIMEOUT_S) -> ResultT:
    """Return the first result of `value_of()` that is not None.

    Raises AssertionError after `timeout_s`, with the source of `value_of`.
    """
    attempts = _Attempts(value_of, None, timeout_s)
    while (value := value_of()) is None:
        time.sleep(attempts.next_pause_s())
    return value


async def eventually(
    condition: Callable[[], object], what: str | None = None, *, timeout_s: float = TIMEOUT_S
) -> None:
    """Return once `condition()` is true, like `wait_until`; other tasks of the loop run meanwhile."""
    attempts = _Attempts(condition, what, timeout_s)
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(attempts.next_pause_s())


def wait_until_passes(
    check: Callable[[], None], *, timeout_s: float = TIMEOUT_S, tolerated: tuple[type[Exception], ...] = ()
) -> None:
    """Return once `check()` raises neither AssertionError nor one of `tolerated`.

    Raises its last error after `timeout_s`.
    """
    attempts = _Attempts(check, None, timeout_s)
    errors: tuple[type[Exception], ...] = (AssertionError, *tolerated)
    while True:
        try:
            return check()
        except errors as error:
            try:
                pause_s = attempts.next_pause_s()
            except AssertionError:
                raise error from None
            time.sleep(pause_s)


async def eventually_returns(
    attempt: Callable[[], Awaitable[ResultT]],
    *,
    tolerated: tuple[type[Exception], ...],
    timeout_s: float = TIMEOUT_S,
) -> ResultT:
    """Return the result of the first `attempt()` that raises none of `tolerated`.

    Raises the last of these errors after `timeout_s`.
    """
    attempts = _Attempts(attempt, None, timeout_s)
    while True:
        try:
            return await attempt()
        except tolerated as error:
            try:
                pause_s = attempts.next_pause_s()
            except AssertionError:
                raise error from None
            await asyncio.sleep(pause_s)


async def remains(condition: Callable[[], object], duration_s: float) -> None:
    """Require that `condition()` is true now and for `duration_s`; other tasks of the loop run meanwhile."""
    end = time.monotonic() + duration_s
    while True:
        assert condition(), f"no longer true: {_source(condition)}"
        if time.monotonic() >= end:
            return
        await asyncio.sleep(_FIRST_PAUSE_S)


def _source(condition: Callable[[], object]) -> str:
    """Return the source of a lambda, the name of another function."""
    name = getattr(condition, "__qualname__", repr(condition))
    if "<lambda>" not in name:
        return name
    try:
        lines = inspect.getsource(condition).splitlines()
    except OSError:
        return name
    return " ".join(line.strip() for line in lines)
