"""The process of the console: what happens if it cannot be started."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from tests.support.waiting import eventually
from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import SystemClock
from tidelog.broker.observability import console_process
from tidelog.broker.observability.console_process import ConsoleProcess


async def test_a_console_that_cannot_be_started_is_started_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = 0

    async def fail(*arguments: object, **options: object) -> None:
        nonlocal attempts
        attempts += 1
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fail)
    monkeypatch.setattr(console_process, "BACKOFF", ExponentialBackoff(1, 1))
    console = ConsoleProcess({"host": "127.0.0.1", "port": 0}, SystemClock(), Random(1))
    with caplog.at_level(logging.WARNING):
        await console.start()
        await eventually(lambda: attempts >= 3)
        await console.close()
    assert "The console cannot be started: [Errno 11] Resource temporarily unavailable" in caplog.text
