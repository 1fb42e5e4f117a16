"""Cleaner workers as real processes: rounds, damage, deaths, and what a worker inherits."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.logs.compaction import (
    COMPACTED,
    append_keyed,
    latest_of,
    read_log,
    replacement_steps,
    roll,
)
from tests.support.logs.partition_logs import open_log
from tests.support.waiting import wait_until
from tidelog.broker.logs.cleaning.messages import CleaningLimits, WorkerError
from tidelog.broker.logs.cleaning.worker import WorkerPace
from tidelog.broker.logs.cleaning.worker_process import WorkerDied, WorkerProcess
from tidelog.protocol.steps import run_steps
from tidelog.storage.compaction.cleanable import find_cleanable
from tidelog.storage.compaction.plan import CleaningPlan, plan_cleaning
from tidelog.storage.disk.errors import CorruptFile
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.log.partition_log import PartitionLog

LIMITS = CleaningLimits(
    map_bytes=1_000_000, load_factor=0.9, io_buffer_bytes=65_536, bytes_per_second=sys.float_info.max
)


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    log = open_log(OsFileSystem(), COMPACTED, directory=str(tmp_path / "t-0"))
    for number in range(3):
        append_keyed(log, ("a", f"{number}"), ("b", "x" * 100))
        append_keyed(log, ("a", "y"), producer_id=7, producer_epoch=0, base_sequence=number)
        roll(log)
    return log


@pytest.fixture
def worker() -> Iterator[WorkerProcess]:
    worker = WorkerProcess()
    yield worker
    worker.close()


def plan_of(log: PartitionLog) -> CleaningPlan:
    return run_steps(plan_cleaning(log, find_cleanable(log, NOW_MS), NOW_MS, LIMITS.io_buffer_bytes))


def descriptors_of(pid: int) -> list[str]:
    folder = Path(f"/proc/{pid}/fd")
    return [os.readlink(entry) for entry in folder.iterdir()]


def is_running(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_worker_compacts_a_log_on_a_real_disk(log: PartitionLog, worker: WorkerProcess) -> None:
    expected = latest_of(read_log(log))
    for _ in range(2):
        log.set_first_dirty_offset(None)
        plan = plan_of(log)
        filled = worker.fill(plan.task, LIMITS)
        assert filled.end_offset == log.log_end_offset
        first = 0
        groups = plan.groups(filled.end_offset)
        for group in groups:
            written = worker.clean(first, first + len(group))
            first += len(group)
            assert written.bytes_read >= written.bytes_written > 0
        worker.sync()
        for group in groups:
            for _ in replacement_steps(log, plan, group, NOW_MS):
                pass
        records = read_log(log)
        assert {record.key: (record.offset, record.value) for record in records} == expected
        assert len(records) == len(expected)


def test_the_memory_of_a_round_is_released_at_its_end(log: PartitionLog, worker: WorkerProcess) -> None:
    worker.fill(plan_of(log).task, LIMITS)
    worker.end_round()
    with pytest.raises(WorkerError, match="the offset map is not filled"):
        worker.clean(0, 1)


def test_a_task_with_long_lists_arrives_complete(log: PartitionLog, worker: WorkerProcess) -> None:
    plan = plan_of(log)
    last = next(iter(plan.task.last_records.values()))
    task = replace(plan.task, last_records=dict.fromkeys(range(5000), last))
    assert worker.fill(task, LIMITS).end_offset == log.log_end_offset


def test_damage_is_reported_and_the_worker_continues(log: PartitionLog, worker: WorkerProcess) -> None:
    plan = plan_of(log)
    path = Path(log.segments.first.file.path)
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptFile, match="checksum") as caught:
        worker.fill(plan.task, LIMITS)
    assert caught.value.path == str(path)
    data[80] ^= 1
    path.write_bytes(data)
    assert worker.fill(plan.task, LIMITS).end_offset == log.log_end_offset


def test_a_missing_segment_is_an_error_of_the_system(log: PartitionLog, worker: WorkerProcess) -> None:
    plan = plan_of(log)
    os.unlink(log.segments.first.file.path)
    with pytest.raises(FileNotFoundError):
        worker.fill(plan.task, LIMITS)


@pytest.mark.parametrize("way", ["killed by the system", "killed by the node"])
def test_a_worker_that_dies_ends_its_round(log: PartitionLog, worker: WorkerProcess, way: str) -> None:
    slow = replace(LIMITS, bytes_per_second=1.0)
    kill = worker.kill if way == "killed by the node" else lambda: os.kill(worker.pid, signal.SIGKILL)
    timer = threading.Timer(0.3, kill)
    timer.start()
    with pytest.raises(WorkerDied, match=f"process {worker.pid} ended with code -9"):
        worker.fill(plan_of(log).task, slow)
    timer.join()
    with pytest.raises(WorkerDied):
        worker.clean(0, 1)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system has no /proc")
def test_a_worker_inherits_no_socket_and_no_file(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, (tmp_path / "open file").open("w") as file:
        os.set_inheritable(server.fileno(), True)
        os.set_inheritable(file.fileno(), True)
        worker = WorkerProcess()
        try:
            names = descriptors_of(worker.pid)
            assert not [name for name in names if name.startswith("socket:") or str(tmp_path) in name]
        finally:
            worker.close()


PARENT = """\
import sys, time
from tidelog.broker.logs.cleaning.worker_process import WorkerProcess
worker = WorkerProcess()
print(worker.pid, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system has no /proc")
def test_a_worker_ends_when_its_node_is_killed() -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[5])}
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True, env=environment
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
        wait_until(lambda: not is_running(pid), "end of the worker")


CLOSED_STREAMS_PARENT = """\
from tidelog.broker.logs.cleaning.worker_process import WorkerProcess
worker = WorkerProcess()
try:
    worker.clean(0, 1)
except Exception as error:
    os._exit(42 if "the offset map is not filled" in str(error) else 1)
"""


def test_a_worker_works_without_the_standard_streams_of_its_node(log: PartitionLog) -> None:
    script = "import os, sys; [os.close(number) for number in (0, 1, 2)]\n" + CLOSED_STREAMS_PARENT
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[5])}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, timeout=60, check=False)
    assert ended.returncode == 42


def test_a_worker_imports_no_module_from_the_working_directory(
    log: PartitionLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy.py").write_text("raise SystemExit('numpy of the working directory')")
    monkeypatch.chdir(tmp_path)
    worker = WorkerProcess()
    try:
        plan = plan_of(log)
        assert worker.fill(plan.task, LIMITS).end_offset == plan.task.end_offset
    finally:
        worker.close()


@pytest.mark.parametrize("bytes_per_second", [1.0, sys.float_info.max])
def test_the_wait_for_a_low_rate_is_within_the_range_of_poll(bytes_per_second: float) -> None:
    waits: list[int] = []

    def is_abandoned(timeout_ms: int) -> bool:
        waits.append(timeout_ms)
        return False

    pace = WorkerPace(ManualClock(), is_abandoned, bytes_per_second)
    pace(100 * 1024 * 1024)
    assert waits == ([2**31 - 1] if bytes_per_second == 1.0 else [])
