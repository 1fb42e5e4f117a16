"""A bound on log lines that others can cause: LINES_MAX of each kind in PERIOD_MS, then only their number.

A kind is the text of a message before its arguments are filled in, so there are as many kinds as places in
the code. What was left out is reported with the first line of the kind after the period, or by `report`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

LINES_MAX: Final = 10
PERIOD_MS: Final = 10_000


class _Kind:
    """Messages of one kind in the current period."""

    __slots__ = ("began_ms", "left_out", "level", "lines", "logger")

    def __init__(self, logger: logging.Logger, level: int, began_ms: int) -> None:
        self.logger = logger
        self.level = level
        self.began_ms = began_ms
        self.lines = 0
        self.left_out = 0


class LogLimit:
    """Passes messages on to their loggers, within the bound. `now_ms` is a monotonic clock."""

    __slots__ = ("_kinds", "_now_ms")

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._kinds: dict[str, _Kind] = {}

    def log(
        self,
        logger: logging.Logger,
        level: int,
        message: str,
        *arguments: object,
        extra: Mapping[str, object] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Log a message, with the traceback of `error`, unless there were too many of its kind."""
        now_ms = self._now_ms()
        kind = self._kinds.get(message)
        if kind is not None and now_ms - kind.began_ms >= PERIOD_MS:
            self._end(message, kind)
            kind = None
        if kind is None:
            kind = self._kinds[message] = _Kind(logger, level, now_ms)
        if kind.lines < LINES_MAX:
            kind.lines += 1
            logger.log(level, message, *arguments, extra=extra, exc_info=error)
        else:
            kind.left_out += 1

    def report(self) -> None:
        """Report what was left out in the periods that are over."""
        now_ms = self._now_ms()
        for message, kind in list(self._kinds.items()):
            if now_ms - kind.began_ms >= PERIOD_MS:
                self._end(message, kind)

    def _end(self, message: str, kind: _Kind) -> None:
        del self._kinds[message]
        if kind.left_out:
            kind.logger.log(
                kind.level,
                "%d more messages were left out since %d s, of the kind: %s",
                kind.left_out,
                (self._now_ms() - kind.began_ms) // 1000,
                message,
            )
