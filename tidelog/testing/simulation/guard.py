"""Forbids the system's clocks, files, sockets, threads and random numbers while a simulation runs.

Code that uses one of them makes a run depend on the machine. Each use is an error where it happens, and is
collected, because the code may handle the error. Python's own modules that report errors are exempt: logging
gets the virtual time, and tracebacks may read source files.
"""

from __future__ import annotations

import builtins
import io
import os
import random
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, Final
from unittest.mock import patch

from tidelog.base.clock import SystemClock

_CLOCKS: Final = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "sleep")
_RANDOM_FUNCTIONS: Final = (
    "betavariate", "choice", "choices", "expovariate", "getrandbits", "randbytes", "randint", "random",
    "randrange", "sample", "seed", "shuffle", "uniform", "_urandom",
)  # fmt: skip
_LIBRARIES: Final = ("pathlib", "zipfile")
"""Their callers are the users of the machine."""
_FRAMES_MAX: Final = 6
_EXEMPT: Final = (
    "logging",
    "traceback",
    "linecache",
    "tokenize",
    "inspect",
    "importlib",
    "_pytest",
)


class SystemAccess(RuntimeError):
    """Code in a simulation has used the machine directly instead of a port."""


class Guard:
    """The uses of the machine that were found."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self.found: list[str] = []

    @contextmanager
    def active(self) -> Iterator[None]:
        """Forbid the machine within the block."""
        with ExitStack() as stack:
            for name in _CLOCKS:
                stack.enter_context(patch.object(time, name, self._clock(name)))
            for name in ("wall_ms", "monotonic_ms", "monotonic_ns", "monotonic_s"):
                stack.enter_context(patch.object(SystemClock, name, self._forbidden(f"SystemClock.{name}")))
            for name in _RANDOM_FUNCTIONS:
                stack.enter_context(patch.object(random, name, self._forbidden(f"random.{name}")))
            for owner, name in (
                (builtins, "open"),
                (io, "open"),
                (os, "open"),
                (os, "urandom"),
                (select, "epoll"),
                (socket, "getaddrinfo"),
                (socket, "getfqdn"),
                (socket.socket, "__init__"),
                (subprocess.Popen, "__init__"),
                (threading.Thread, "start"),
            ):
                text = f"{owner.__name__}.{name}"
                stack.enter_context(patch.object(owner, name, self._forbidden(text, getattr(owner, name))))
            yield

    def _clock(self, name: str) -> Callable[..., Any]:
        def clock(*arguments: Any) -> Any:
            if _is_exempt():
                now_ns = self._now_ns()
                return now_ns if name.endswith("_ns") else now_ns / 1_000_000_000
            raise self._add(f"time.{name}")

        return clock

    def _forbidden(self, text: str, original: Callable[..., Any] | None = None) -> Callable[..., Any]:
        def forbidden(*arguments: Any, **options: Any) -> Any:
            if original is not None and _is_exempt():
                return original(*arguments, **options)
            raise self._add(text)

        return forbidden

    def _add(self, text: str) -> SystemAccess:
        users: list[str] = []
        frame = sys._getframe(2)
        while frame is not None and len(users) < _FRAMES_MAX:
            users.append(f"{frame.f_globals.get('__name__')}:{frame.f_lineno}")
            frame = frame.f_back  # type: ignore[assignment]
        found = f"{text} is used by {', called by '.join(users)}"
        self.found.append(found)
        return SystemAccess(found)


def _is_exempt() -> bool:
    """Return whether the code that used the machine only reports errors, or reads the package's metadata."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        module = str(frame.f_globals.get("__name__")).split(".")[0]
        if module not in _LIBRARIES:
            return module in _EXEMPT
        frame = frame.f_back
    return False
