"""Log lines of a lasting fault, such as a full disk: one at its start, then counts, then one at its end.

`tidelog.base.log_limit` limits lines with different texts. Here all lines have the same text.
"""

from __future__ import annotations

import logging


class FaultLog:
    """Logs the fault of one `subject`, such as a log directory.

    The owner calls `report` at intervals. A fault that did not recur in an interval has ended.
    """

    __slots__ = ("_last", "_level", "_logger", "_since_report", "_subject", "_total")

    def __init__(self, logger: logging.Logger, subject: str) -> None:
        self._logger = logger
        self._subject = subject
        self._level = logging.ERROR
        self._total = 0
        self._since_report = 0
        self._last = ""

    def record_failure(self, level: int, text: str) -> None:
        """Log the first failure, and count the following ones."""
        if not self._total:
            self._level = level
            self._logger.log(level, "%s: %s", self._subject, text)
        else:
            self._since_report += 1
        self._total += 1
        self._last = text

    def report(self) -> None:
        """Log the number of failures since the last report, or that the fault has ended."""
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
        """End the fault without a log line, for a caller that logs a more specific one."""
        self._total = self._since_report = 0
