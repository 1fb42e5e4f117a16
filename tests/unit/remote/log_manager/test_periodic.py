"""A periodic task reports failures once, and waits longer than its interval after several of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from tests.support.waiting import TIMEOUT_S
from tidelog.base.backoff import ExponentialBackoff
from tidelog.remote.log_manager.periodic import PeriodicTask
from tidelog.remote.ports.metadata_manager import RemoteMetadataNotReady
from tidelog.remote.ports.storage_manager import RemoteStorageError, StoreUnavailable
from tidelog.remote.tasks.slots import TaskSlots


async def delays_of(errors: Sequence[Exception | None], interval_ms: int = 8) -> list[float]:
    """Run a task with these outcomes; return the time between its runs in milliseconds."""
    loop = asyncio.get_running_loop()
    times: list[float] = []
    ended = asyncio.Event()

    async def work() -> None:
        times.append(loop.time())
        if len(times) > len(errors):
            ended.set()
            return
        error = errors[len(times) - 1]
        if error is not None:
            raise error

    task = PeriodicTask(
        "copy",
        work,
        interval_ms=lambda: interval_ms,
        backoff=ExponentialBackoff(5, 80, 0.0),
        randomness=Random(1),
        slots=TaskSlots(1),
    )
    await asyncio.wait_for(ended.wait(), TIMEOUT_S)
    task.cancel()
    return [(after - before) * 1000 for before, after in pairwise(times)]


async def test_repeated_failures_have_one_line_without_traceback_and_one_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    await delays_of([RemoteStorageError("wrong size")] * 4 + [None])
    assert [record.getMessage() for record in caplog.records] == [
        "Task copy failed; retrying: wrong size",
        "Task copy succeeded after 4 failures",
    ]
    assert all(record.exc_info is None for record in caplog.records)


async def test_an_unexpected_error_has_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    await delays_of([KeyError("defect")])
    (record,) = caplog.records
    assert record.exc_info is not None


async def test_an_outage_of_the_store_is_not_reported_by_each_task(caplog: pytest.LogCaptureFixture) -> None:
    await delays_of([StoreUnavailable("AccessDenied")] * 3)
    assert caplog.records == []


async def test_the_backoff_grows_beyond_the_interval() -> None:
    delays = await delays_of([RemoteStorageError("wrong size")] * 5)
    assert all(delay >= expected for delay, expected in zip(delays, (5, 10, 20, 40, 80), strict=True))


async def test_a_task_whose_metadata_is_not_ready_runs_again_within_its_interval() -> None:
    not_ready = [RemoteMetadataNotReady("not read yet")] * 12
    assert sum(await delays_of(not_ready, interval_ms=8)) < 5000
