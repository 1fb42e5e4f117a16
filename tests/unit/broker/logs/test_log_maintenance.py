"""Housekeeping: each job runs at its interval, and a failing one does not stop others."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.logs.log_managers import delete_logs, get_or_create_log
from tests.support.logs.partition_logs import batch
from tests.support.replicas.replica_manager import Replicas
from tests.support.waiting import eventually
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.logs.housekeeping import Housekeeping
from tidelog.broker.purgatory.timers import Timers
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.config.topic_configs import DEFAULT_LOG_CONFIG
from tidelog.storage.log.partition_log import PartitionLog


class HousekeepingFixture:
    """Housekeeping over real logs, on a clock that the test advances."""

    def __init__(self, executor: ThreadPoolExecutor, **configs: str) -> None:
        values = {key.replace("_", "."): value for key, value in configs.items()}
        config = BrokerConfig({"node.id": "1", "listeners": "PLAINTEXT://:9092", **values})
        self.clock = ManualClock()
        self.timers = Timers(self.clock.monotonic_ms)
        self.replicas = Replicas()
        self.flusher = Flusher(
            executor,
            self.clock,
            self.replicas.manager.on_flushed,
            self.replicas.logs.directories.disk_failed,
        )
        self.housekeeping = Housekeeping(
            self.replicas.logs, self.flusher, executor, self.timers, self.clock, config
        )
        self.housekeeping.start()

    def pass_ms(self, delay_ms: int) -> None:
        self.clock.now_ms += delay_ms
        self.timers.advance()

    def append(self, topic: str, count: int = 1) -> None:
        partition = self.replicas.manager.partition(TopicPartition(topic, 0))
        for _ in range(count):
            partition.append(batch(["x" * 500], timestamps=self.clock.now_ms), 1, self.clock.now_ms)

    def log_with_expired_segment(self, topic: str) -> PartitionLog:
        """Create a partition whose only record is below the log start, in a sealed segment."""
        self.replicas.create(topic, retention_ms="1", file_delete_delay_ms="20000")
        self.append(topic)
        return self.replicas.manager.partition(TopicPartition(topic, 0)).log

    def deleted_files(self, log: PartitionLog) -> list[str]:
        return [name for name in self.replicas.fs.listdir(log.directory) if name.endswith(".deleted")]


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


async def test_retention_deletes_old_segments_and_their_files_go_later(executor: ThreadPoolExecutor) -> None:
    fixture = HousekeepingFixture(executor, log_retention_check_interval_ms="1000")
    fixture.replicas.create("t", retention_ms="5000", segment_bytes="1048576", file_delete_delay_ms="20000")
    fixture.append("t", 3)
    log = fixture.replicas.manager.partition(TopicPartition("t", 0)).log
    fixture.pass_ms(3_000)
    assert log.log_start_offset == 0
    fixture.pass_ms(3_000)
    assert log.log_start_offset == 3
    await eventually(lambda: fixture.deleted_files(log))
    fixture.pass_ms(15_000)
    fixture.pass_ms(15_000)
    executor.submit(lambda: None).result()
    assert not fixture.deleted_files(log)


async def test_retention_syncs_the_log_starts_in_a_thread_before_it_renames_a_file(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = HousekeepingFixture(executor, log_retention_check_interval_ms="1000")
    logs = [fixture.log_with_expired_segment(topic) for topic in ("t", "u")]
    fs, syncing_threads, deleted_at_syncs = fixture.replicas.fs, set[int](), list[list[str]]()
    fsync_dir = fs.fsync_dir

    def record(path: str) -> None:
        syncing_threads.add(threading.get_ident())
        deleted_at_syncs.append([name for log in logs for name in fixture.deleted_files(log)])
        fsync_dir(path)

    monkeypatch.setattr(fs, "fsync_dir", record)
    fixture.pass_ms(1_001)
    await eventually(lambda: all(fixture.deleted_files(log) for log in logs))
    assert syncing_threads and threading.get_ident() not in syncing_threads
    assert deleted_at_syncs[0] == []
    assert "t 0 1" in fs.read("/data/log-start-offset-checkpoint").decode()


async def test_a_log_that_is_recreated_during_the_checkpoint_of_retention_keeps_its_files(
    executor: ThreadPoolExecutor,
) -> None:
    fixture = HousekeepingFixture(executor, log_retention_check_interval_ms="1000")
    fixture.log_with_expired_segment("t")
    other = fixture.log_with_expired_segment("u")
    disk_is_free = threading.Event()
    executor.submit(disk_is_free.wait)
    fixture.pass_ms(1_001)
    topic_partition = TopicPartition("t", 0)
    delete_logs(fixture.replicas.logs, [topic_partition], fixture.clock.now_ms)
    recreated = get_or_create_log(
        fixture.replicas.logs, topic_partition, None, DEFAULT_LOG_CONFIG, fixture.clock.now_ms
    )
    disk_is_free.set()
    await eventually(lambda: fixture.deleted_files(other))
    assert fixture.deleted_files(recreated) == []


async def test_a_log_that_is_truncated_during_the_checkpoint_of_retention_keeps_its_new_segment(
    executor: ThreadPoolExecutor,
) -> None:
    fixture = HousekeepingFixture(executor, log_retention_check_interval_ms="1000")
    truncated, other = (fixture.log_with_expired_segment(topic) for topic in ("t", "u"))
    disk_is_free = threading.Event()
    executor.submit(disk_is_free.wait)
    fixture.pass_ms(1_001)
    truncated.truncate_fully_and_start_at(0, fixture.clock.now_ms)
    disk_is_free.set()
    await eventually(lambda: fixture.deleted_files(other))
    assert truncated.segments.base_offsets == [0]
    assert fixture.replicas.fs.exists(f"{truncated.directory}/{0:020d}.log")


async def test_retention_that_a_stop_interrupts_is_completed_by_the_next_start(
    executor: ThreadPoolExecutor,
) -> None:
    fixture = HousekeepingFixture(executor, log_retention_check_interval_ms="1000")
    log = fixture.log_with_expired_segment("t")
    disk_is_free = threading.Event()
    executor.submit(disk_is_free.wait)
    fixture.pass_ms(1_001)
    fixture.housekeeping.stop()
    disk_is_free.set()
    await asyncio.get_running_loop().run_in_executor(executor, lambda: None)
    assert fixture.deleted_files(log) == []
    fixture.housekeeping.start()
    fixture.pass_ms(1_001)
    await eventually(lambda: fixture.deleted_files(log))


def test_a_disk_that_cannot_delete_files_goes_offline(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixture = HousekeepingFixture(executor)
    fixture.replicas.create("t", file_delete_delay_ms="0")
    fixture.append("t")
    delete_logs(fixture.replicas.logs, [TopicPartition("t", 0)], fixture.clock.now_ms)
    threads: list[str] = []

    def refuse(path: str) -> None:
        threads.append(threading.current_thread().name)
        raise OSError(30, "Read-only file system", path)

    monkeypatch.setattr(fixture.replicas.fs, "rmtree", refuse)
    fixture.pass_ms(15_001)
    executor.submit(lambda: None).result()
    assert threads != [threading.current_thread().name]
    assert fixture.replicas.logs.directories.online
    fixture.pass_ms(15_001)
    assert not fixture.replicas.logs.directories.online


def test_a_delete_delay_shorter_than_the_interval_is_kept(executor: ThreadPoolExecutor) -> None:
    fixture = HousekeepingFixture(executor, log_segment_delete_delay_ms="200")
    fixture.replicas.create("t", file_delete_delay_ms="200")
    fixture.append("t")
    delete_logs(fixture.replicas.logs, [TopicPartition("t", 0)], fixture.clock.now_ms)
    fixture.pass_ms(100)
    assert any(name.endswith("-delete") for name in fixture.replicas.fs.listdir("/data"))
    fixture.pass_ms(150)
    executor.submit(lambda: None).result()
    assert not any(name.endswith("-delete") for name in fixture.replicas.fs.listdir("/data"))


async def test_a_topic_with_flush_ms_is_flushed_after_that_time(executor: ThreadPoolExecutor) -> None:
    fixture = HousekeepingFixture(executor)
    fixture.replicas.create("t", flush_ms="2000")
    fixture.append("t")
    log = fixture.replicas.manager.partition(TopicPartition("t", 0)).log
    fixture.pass_ms(1_000)
    await fixture.flusher.close()
    assert log.durability.recovery_point == 0
    fixture.pass_ms(1_500)
    await fixture.flusher.close()
    assert log.durability.recovery_point == 1


def test_checkpoints_are_written_at_their_intervals(executor: ThreadPoolExecutor) -> None:
    fixture = HousekeepingFixture(executor, replica_high_watermark_checkpoint_interval_ms="5000")
    fixture.replicas.create("t")
    fixture.append("t", 2)
    fixture.pass_ms(5_001)
    executor.submit(lambda: None).result()
    text = fixture.replicas.fs.read("/data/replication-offset-checkpoint").decode()
    assert "t 0 2" in text


def test_an_interval_of_0_does_not_run_a_job_continuously(executor: ThreadPoolExecutor) -> None:
    fixture = HousekeepingFixture(
        executor,
        log_flush_offset_checkpoint_interval_ms="0",
        log_flush_start_offset_checkpoint_interval_ms="0",
        log_flush_scheduler_interval_ms="0",
        replica_high_watermark_checkpoint_interval_ms="-1",
    )
    fixture.replicas.create("t")
    fixture.append("t")
    for _ in range(20):
        fixture.pass_ms(1)
    executor.submit(lambda: None).result()
    assert not fixture.replicas.fs.exists("/data/recovery-point-offset-checkpoint")
    assert not fixture.replicas.fs.exists("/data/replication-offset-checkpoint")
    assert sum(entry._bucket is not None for entry in fixture.housekeeping._entries.values()) == 5


def test_a_failing_job_is_logged_and_run_again(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fixture = HousekeepingFixture(executor, log_retention_check_interval_ms="1000")
    calls: list[int] = []

    def fail(now_ms: int) -> int:
        calls.append(now_ms)
        raise RuntimeError("out of order")

    monkeypatch.setattr(fixture.replicas.logs.maintenance, "apply_retention", fail)
    fixture.pass_ms(1_001)
    fixture.pass_ms(1_001)
    assert calls == [NOW_MS + 1_001, NOW_MS + 2_002]
    assert "Periodic job 'retention' failed" in caplog.text


def test_no_job_runs_after_stop(executor: ThreadPoolExecutor) -> None:
    fixture = HousekeepingFixture(executor)
    assert len(fixture.timers) > 0
    fixture.housekeeping.stop()
    assert len(fixture.timers) == 0
