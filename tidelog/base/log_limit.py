"""A limit on log lines that clients can cause: LINES_MAX of each kind in PERIOD_MS, then only their number.

The kind of a message is its text without arguments, so that the number of kinds is bounded by the program.
The number of suppressed lines is logged before the first line of the kind after the period, or by `report`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final

LINES_MAX: Final = 10
PERIOD_MS: Final = 10_000


class _Kind:
    """The messages of one kind in its current period."""

    __slots__ = ("level", "lines", "logger", "start_ms", "suppressed")

    def __init__(self, logger: logging.Logger, level: int, start_ms: int) -> None:
        self.logger = logger
        self.level = level
        self.start_ms = start_ms
        self.lines = 0
        self.suppressed = 0


class LogLimit:
    """Passes messages to their loggers within the limit.

    `now_ms` returns monotonic time.
    """

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
        """Log a message, with the traceback of `error`, unless the limit of its kind is reached."""
        now_ms = self._now_ms()
        kind = self._kinds.get(message)
        if kind is not None and now_ms - kind.start_ms >= PERIOD_MS:
            self._end(message, kind)
            kind = None
        if kind is None:
            kind = self._kinds[message] = _Kind(logger, level, now_ms)
        if kind.lines < LINES_MAX:
            kind.lines += 1
            logger.log(level, message, *arguments, extra=extra, exc_info=error)
        else:
            kind.suppressed += 1

    def report(self) -> None:
        """Log the numbers of lines that were suppressed in periods that have ended."""
        now_ms = self._now_ms()
        for message, kind in list(self._kinds.items()):
            if now_ms - kind.start_ms >= PERIOD_MS:
                self._end(message, kind)

    def _end(self, message: str, kind: _Kind) -> None:
        del self._kinds[message]
        if kind.suppressed:
            kind.logger.log(
                kind.level,
                "%d more messages were suppressed in the last %d s, of the kind: %s",
                kind.suppressed,
                (self._now_ms() - kind.start_ms) // 1000,
                message,
            )
