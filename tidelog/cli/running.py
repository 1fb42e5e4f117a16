"""Runs a command's coroutine on uvloop; ctrl-C and SIGTERM cancel it (shell).

A consumer therefore commits and leaves its group before the process exits.
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


def run(work: Coroutine[Any, Any, T], *, prints_unreachable_brokers: bool = False) -> T:
    """Run `work` and return its result. Errors: those of `work`; KeyboardInterrupt; Terminated.

    With `prints_unreachable_brokers`, a command that retries without end prints which broker it cannot reach.
    """
    set_up_logging()
    if prints_unreachable_brokers:
        _print_warnings_of("tidelog.clients.transport.network")
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


class _WarningHandler(logging.Handler):
    """Prints each warning on one line, as an error."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


def set_up_logging() -> None:
    """Hide logs, because a command prints its errors itself; TIDELOG_LOG_LEVEL shows them.

    Only the loss and the return of the cluster are printed, because the command waits meanwhile.
    """
    level = os.environ.get(LOG_LEVEL_VARIABLE)
    if level:
        logging.basicConfig(level=level.upper())
    elif not logging.getLogger().handlers:
        logging.getLogger().addHandler(logging.NullHandler())
    _print_warnings_of("tidelog.clients.metadata.cluster_metadata")


def _print_warnings_of(name: str) -> None:
    log = logging.getLogger(name)
    if not os.environ.get(LOG_LEVEL_VARIABLE) and not log.handlers:
        log.addHandler(_WarningHandler(logging.WARNING))
