"""Running a command's coroutine: on uvloop, with ctrl-C and SIGTERM as a cancellation (shell).

So a consumer leaves its group and commits before the process ends.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import uvloop

from tidelog.cli.failures import Terminated, complain

T = TypeVar("T")

LOG_LEVEL_VARIABLE: Final = "TIDELOG_LOG_LEVEL"


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end. Errors: its own; KeyboardInterrupt; Terminated."""
    set_up_logging()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_until_terminated(work))


async def _until_terminated(work: Coroutine[Any, Any, T]) -> T:
    if threading.current_thread() is not threading.main_thread():
        return await work
    terminated = False
    task = asyncio.current_task()
    assert task is not None

    def on_sigterm() -> None:
        nonlocal terminated
        terminated = True
        task.cancel()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, on_sigterm)
    try:
        return await work
    except asyncio.CancelledError:
        if terminated:
            raise Terminated from None
        raise
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


class _Complaints(logging.Handler):
    """Prints each warning as the line that a failure would be."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


def set_up_logging() -> None:
    """Keep logs out of the way: a command says itself what failed. TIDELOG_LOG_LEVEL shows them.

    Only that the cluster was lost, and came back, is told: a command that waits for it would seem idle.
    """
    level = os.environ.get(LOG_LEVEL_VARIABLE)
    if level:
        logging.basicConfig(level=level.upper())
    elif not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    told = logging.getLogger("tidelog.clients.metadata.cluster_metadata")
    if not level and not told.handlers:
        told.addHandler(_Complaints(logging.WARNING))
