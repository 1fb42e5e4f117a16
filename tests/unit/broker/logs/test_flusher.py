"""The flusher: durability, shared flushes, and final failures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.logs.partition_logs import batch, open_log
from tests.support.waiting import TIMEOUT_S
from tidelog.broker.logs.flusher import FLUSHES_AT_ONCE, Flusher
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.storage.disk.errors import StorageFailure
from tidelog.storage.log.flush import FlushPlan
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def fs() -> CrashFileSystem:
    return CrashFileSystem()


@pytest.fixture
def log(fs: CrashFileSystem) -> PartitionLog:
    return open_log(fs)


class Flushes:
    """A flusher with a record of its failures."""

    def __init__(self, executor: ThreadPoolExecutor) -> None:
        self.failures: list[tuple[PartitionLog, StorageFailure]] = []
        self.flushed: list[PartitionLog] = []
        self.flusher = Flusher(
            executor,
            ManualClock(),
            self.flushed.append,
            lambda log, error: self.failures.append((log, error)),
        )


async def test_a_flush_moves_the_recovery_point_to_the_log_end(
    executor: ThreadPoolExecutor, log: PartitionLog
) -> None:
    log.append_as_leader(batch(["a", "b"]), 0, NOW_MS)
    flushes = Flushes(executor)
    await flushes.flusher.flush(log)
    assert log.durability.recovery_point == log.log_end_offset == 2
    assert flushes.flushed == [log]


async def test_the_times_of_flushes_are_counted(executor: ThreadPoolExecutor, log: PartitionLog) -> None:
    flushes = Flushes(executor)
    log.append_as_leader(batch(["a", "b"]), 0, NOW_MS)
    await flushes.flusher.flush(log)
    assert sum(flushes.flusher.times.buckets) == 1


async def test_concurrent_calls_share_the_next_flush(
    executor: ThreadPoolExecutor, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    runs: list[int] = []

    def run(plan: FlushPlan) -> None:
        runs.append(plan.end_offset)
        assert go_on.wait(TIMEOUT_S)

    monkeypatch.setattr(FlushPlan, "run", run)
    flusher = Flushes(executor).flusher
    log.append_as_leader(batch(["a"]), 0, NOW_MS)
    first = flusher.flush(log)
    await asyncio.sleep(0)
    log.append_as_leader(batch(["b"]), 0, NOW_MS)
    later = [flusher.flush(log) for _ in range(5)]
    assert not first.done()
    go_on.set()
    await asyncio.gather(first, *later)
    assert runs == [1, 2]


async def test_fsyncgate_a_failed_fsync_is_final_and_never_tried_again(
    executor: ThreadPoolExecutor, log: PartitionLog, fs: CrashFileSystem
) -> None:
    log.append_as_leader(batch(["a"]), 0, NOW_MS)
    flushes = Flushes(executor)
    fs.fail_next_fsync(".log")
    with pytest.raises(KafkaError) as caught:
        await flushes.flusher.flush(log)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [failed for failed, _ in flushes.failures] == [log]
    assert log.durability.recovery_point == 0
    with pytest.raises(KafkaError) as refused:
        log.append_as_leader(batch(["b"]), 0, NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_flush_that_fails_unexpectedly_ends_all_waiting_calls(
    executor: ThreadPoolExecutor, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(plan: FlushPlan) -> None:
        raise RuntimeError("out of order")

    monkeypatch.setattr(FlushPlan, "run", run)
    log.append_as_leader(batch(["a"]), 0, NOW_MS)
    flushes = Flushes(executor)
    async with asyncio.timeout(TIMEOUT_S):
        with pytest.raises(KafkaError, match="out of order") as caught:
            await flushes.flusher.flush(log)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert [failed for failed, _ in flushes.failures] == [log]


async def test_a_stop_flushes_only_logs_with_records_that_are_not_durable(
    executor: ThreadPoolExecutor, fs: CrashFileSystem
) -> None:
    logs = [open_log(fs, directory=f"/logs/t-{number}") for number in range(20)]
    for log in logs[::2]:
        log.append_as_leader(batch(["a"]), 0, NOW_MS)
    flushes = Flushes(executor)
    await flushes.flusher.flush_all(logs, TIMEOUT_S)
    assert sorted(log.directory for log in flushes.flushed) == sorted(log.directory for log in logs[::2])
    assert all(log.durability.recovery_point == log.log_end_offset for log in logs)


async def test_a_failed_flush_does_not_end_the_flushes_of_other_logs(
    executor: ThreadPoolExecutor, fs: CrashFileSystem
) -> None:
    logs = [open_log(fs, directory=f"/logs/t-{number}") for number in range(20)]
    for log in logs:
        log.append_as_leader(batch(["a"]), 0, NOW_MS)
    fs.fail_next_fsync("/logs/t-3/")
    flushes = Flushes(executor)
    await flushes.flusher.flush_all(logs, TIMEOUT_S)
    assert [failed for failed, _ in flushes.failures] == [logs[3]]
    assert len(flushes.flushed) == 19


async def test_a_stop_with_a_slow_disk_starts_no_flush_after_the_timeout(
    executor: ThreadPoolExecutor, fs: CrashFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(FlushPlan, "run", lambda plan: go_on.wait(TIMEOUT_S))
    logs = [open_log(fs, directory=f"/logs/t-{number}") for number in range(3 * FLUSHES_AT_ONCE)]
    for log in logs:
        log.append_as_leader(batch(["a"]), 0, NOW_MS)
    flushes = Flushes(executor)
    waiting = flushes.flusher.flush(logs[0])
    await flushes.flusher.flush_all(logs, timeout_s=0.05)
    assert len(flushes.flusher._running) == FLUSHES_AT_ONCE
    go_on.set()
    await flushes.flusher.close()
    assert set(flushes.flushed) == set(logs[:FLUSHES_AT_ONCE])
    assert waiting.done() and not waiting.cancelled()


async def test_close_waits_for_a_running_flush(executor: ThreadPoolExecutor, log: PartitionLog) -> None:
    log.append_as_leader(batch(["a"]), 0, NOW_MS)
    flusher = Flushes(executor).flusher
    done = flusher.flush(log)
    await flusher.close()
    assert done.done()


async def test_a_paused_log_is_flushed_when_it_is_resumed(
    executor: ThreadPoolExecutor, log: PartitionLog
) -> None:
    """The files of a log that moves to another directory are replaced in between."""
    flusher = Flushes(executor).flusher
    await flusher.pause(log)
    log.append_as_leader(batch(["a"]), 0, NOW_MS)
    flushed = flusher.flush(log)
    await asyncio.sleep(0)
    assert log not in flusher._running
    flusher.resume(log)
    await flushed
    assert log.durability.recovery_point == 1


async def test_a_pause_waits_for_the_flush_that_is_running(
    executor: ThreadPoolExecutor, log: PartitionLog
) -> None:
    flusher = Flushes(executor).flusher
    log.append_as_leader(batch(["a"]), 0, NOW_MS)
    flushed = flusher.flush(log)
    await asyncio.sleep(0)
    await flusher.pause(log)
    assert flushed.done()
    assert log.durability.recovery_point == 1
    flusher.resume(log)
