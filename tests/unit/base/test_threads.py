"""The threads that pools and executors use."""

from __future__ import annotations

import threading

import pytest

from tests.support.waiting import TIMEOUT_S
from tidelog.base.threads import SYSTEM_THREADS


def test_an_executor_runs_functions_in_threads_with_its_name() -> None:
    with SYSTEM_THREADS.executor(2, "tides") as executor:
        name = executor.submit(lambda: threading.current_thread().name).result(TIMEOUT_S)
    assert name.startswith("tides")


def test_call_threads_are_started_when_needed_and_do_not_keep_the_process_from_ending() -> None:
    threads = SYSTEM_THREADS.call_threads("tides-calls")
    barrier = threading.Barrier(2)
    calls = [threads.submit(lambda: barrier.wait(TIMEOUT_S), count) for count in (1, 2)]
    assert sorted(call.result(TIMEOUT_S) for call in calls) == [0, 1]
    assert threads.submit(lambda: threading.current_thread().daemon, 2).result(TIMEOUT_S)


def test_idle_call_threads_end_and_the_others_continue() -> None:
    threads = SYSTEM_THREADS.call_threads("tides-calls")
    barrier = threading.Barrier(2)
    for call in [threads.submit(lambda: barrier.wait(TIMEOUT_S), 2) for _ in range(2)]:
        call.result(TIMEOUT_S)
    threads.keep(1)
    used = {threads.submit(threading.current_thread, 1).result(TIMEOUT_S) for _ in range(3)}
    assert len(used) <= 2
    with pytest.raises(ValueError, match="invalid literal"):
        threads.submit(lambda: int("x"), 1).result(TIMEOUT_S)
