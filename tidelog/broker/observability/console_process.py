"""The process of the console that a broker serves (console.listener).

The console is a client of the broker, in a process of its own: what it computes does not delay requests, and
it has no rights of the broker. The process gets its settings as one line of JSON on its standard input. It
ends when this input ends, so that it does not survive the broker.

Errors: a console that ends is started again with increasing delays, and each end is logged.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import Clock
from tidelog.base.config_definition import ConfigError
from tidelog.base.randomness import Randomness
from tidelog.broker.config.console_config import ADDRESS_KEY

logger = logging.getLogger(__name__)

MODULE: Final = "tidelog.cli.console.process"
CLOSE_TIMEOUT_S: Final = 2.0
BACKOFF: Final = ExponentialBackoff(1_000, 60_000)
STABLE_MS: Final = 60_000
"""A console that has run for this time is started again after the shortest delay."""
_PACKAGE_FOLDER: Final = Path(__file__).parents[3]


class ConsoleProcess:
    """Runs the console from `start` to `close`."""

    def __init__(self, settings: Mapping[str, Any], clock: Clock, randomness: Randomness) -> None:
        self._settings = settings
        self._clock = clock
        self._randomness = randomness
        self._process: Process | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process in the background. Errors: ConfigError if the extra is not installed."""
        if find_spec("aiohttp") is None:
            address = f"{self._settings['host']}:{self._settings['port']}"
            raise ConfigError(ADDRESS_KEY, address, "it needs aiohttp: pip install 'tidelog[console]'")
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """End the process."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if self._process is not None:
            await _end(self._process)

    async def _run(self) -> None:
        failures = 0
        while True:
            started_ms = self._clock.monotonic_ms()
            try:
                end = f"has ended with status {await self._run_once()}"
            except OSError as error:
                end = f"cannot be started: {error}"
            has_run_ms = self._clock.monotonic_ms() - started_ms
            failures = 0 if has_run_ms >= STABLE_MS else failures + 1
            delay_ms = BACKOFF.delay_ms(max(0, failures - 1), self._randomness)
            logger.warning("The console %s; it is started again in %.0f s", end, delay_ms / 1000)
            await asyncio.sleep(delay_ms / 1000)

    async def _run_once(self) -> int:
        """Run the process until it ends; return its status. Errors: OSError if it cannot be started."""
        self._process = process = await _spawn(self._settings)
        assert process.stdout is not None
        if address := (await process.stdout.readline()).decode().strip():
            logger.info("The console is at %s", address)
        return await process.wait()


async def _spawn(settings: Mapping[str, Any]) -> Process:
    # The console imports this package from the same path as the node.
    path = [str(_PACKAGE_FOLDER), os.environ.get("PYTHONPATH")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, path))}
    # -P: modules in the working directory of the node are not imported.
    command = [sys.executable, "-P", "-m", MODULE]
    process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, env=environment)
    assert process.stdin is not None
    with suppress(ConnectionError):  # the end of the process is reported by its status
        process.stdin.write(json.dumps(dict(settings)).encode() + b"\n")
        await process.stdin.drain()
    return process


async def _end(process: Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(CLOSE_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
