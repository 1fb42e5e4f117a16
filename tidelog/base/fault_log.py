"""Log lines of a fault that lasts, as a full disk: one when it begins, then numbers, one when it is over.

`base/log_limit` bounds lines of which each says something else; here all of them say the same.
"""

from __future__ import annotations

import logging


class FaultLog:
    """The fault of one `subject`; `report`, called at intervals, ends one that has not occurred since."""

    __slots__ = ("_last", "_level", "_logger", "_since_report", "_subject", "_total")

    def __init__(self, logger: logging.Logger, subject: str) -> None:
        self._logger = logger
        self._subject = subject
        self._level = logging.ERROR
        self._total = 0
        self._since_report = 0
        self._last = ""

    def occurred(self, level: int, text: str) -> None:
        """Log the first time, and count the others."""
        if not self._total:
            self._level = level
            self._logger.log(level, "%s: %s", self._subject, text)
        else:
            self._since_report += 1
        self._total += 1
        self._last = text

    def report(self) -> None:
        """Log how often the fault has occurred since the last report, or that it is over."""
        if not self._total:
            return
        if self._since_report:
            text = "%s: %d more failures, the last: %s"
            self._logger.log(self._level, text, self._subject, self._since_report, self._last)
            self._since_report = 0
        else:
            self._logger.info("%s: no more failures after %d", self._subject, self._total)
            self._total = 0

    def forget(self) -> None:
        """End the fault without a line: another one says more."""
        self._total = self._since_report = 0
