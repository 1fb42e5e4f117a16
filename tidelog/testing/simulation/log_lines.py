"""The log lines of the processes of a simulation: in the timeline, and errors that show a defect."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tidelog.protocol.errors import KafkaError
from tidelog.storage.disk.errors import StorageFailure
from tidelog.testing.simulation.crash_file_system import SimulatedCrash
from tidelog.testing.simulation.scheduler import Scheduler

_EXPECTED: Final = (KafkaError, OSError, StorageFailure, SimulatedCrash, TimeoutError)
"""Errors that faults cause. Any other error with a traceback is a defect."""


class LogLines(logging.Handler):
    """Collects what is logged under `tidelog`."""

    def __init__(self, scheduler: Scheduler, level: int = logging.INFO) -> None:
        super().__init__(level)
        self._scheduler = scheduler
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Add a line to the timeline."""
        text = record.getMessage()
        where = self._scheduler.current
        self._scheduler.trace.note(where, f"{record.levelname} {record.name}: {text}")
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and record.levelno >= logging.ERROR and not _is_expected(error):
            self.errors.append(f"{where}: {text}: {error!r}\n{self._format_error(record)}")

    def _format_error(self, record: logging.LogRecord) -> str:
        assert record.exc_info is not None and not isinstance(record.exc_info, bool)
        return logging.Formatter().formatException(record.exc_info)

    @contextmanager
    def collected(self) -> Iterator[None]:
        """Collect within the block, instead of passing lines to other handlers."""
        logger = logging.getLogger("tidelog")
        level, propagate = logger.level, logger.propagate
        logger.addHandler(self)
        logger.setLevel(self.level)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)
            logger.propagate = propagate


def _is_expected(error: BaseException) -> bool:
    """Return whether a fault has caused an error; code still runs after the end of its process."""
    if isinstance(error, _EXPECTED):
        return True
    context = error.__context__
    while context is not None and not isinstance(context, SimulatedCrash):
        context = context.__context__
    return context is not None
