"""Log lines of a lasting fault, such as a full disk: one at its start, then counts, then one at its end.

`base/log_limit` limits lines with different texts; here all lines have the same text.
"""

from __future__ import annotations

import logging


class FaultLog:
    """The fault of one `subject`. The owner calls `report` at intervals; it ends a fault that did not
    recur.
    """

    __slots__ = ("_last", "_level", "_logger", "_since_report", "_subject", "_total")

    def __init__(self, logger: logging.Logger, subject: str) -> None:
        self._logger = logger
        self._subject = subject
        self._level = logging.ERROR
        self._total = 0
        self._since_report = 0
        self._last = ""

    def occurred(self, level: int, text: str) -> None:
        """Log the first failure, and count the following ones."""
        if not self._total:
            self._level = level
            self._logger.log(level, "%s: %s", self._subject, text)
        else:
            self._since_report += 1
        self._total += 1
        self._last = text

    def report(self) -> None:
        """Log how often the fault has occurred since the last report, or that it has ended."""
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
        """End the fault without a log line, because another line is more specific."""
        self._total = self._since_report = 0
