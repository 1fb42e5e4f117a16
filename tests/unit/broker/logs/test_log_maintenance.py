"""Housekeeping: each job runs at its interval, and a failing one does not stop others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.logs.partition_logs import NOW_MS, batch
from tests.support.replicas.replica_manager import Replicas
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.logs.housekeeping import Housekeeping
from tidelog.broker.purgatory.timers import Timers
from tidelog.protocol.ids import TopicPartition


class House:
    """Housekeeping over real logs, on a clock that the test turns."""

    def __init__(self, executor: ThreadPoolExecutor, **configs: str) -> None:
        values = {key.replace("_", "."): value for key, value in configs.items()}
        config = BrokerConfig({"node.id": "1", "listeners": "PLAINTEXT://:9092", **values})
        self.clock = ManualClock()
        self.timers = Timers(self.clock.monotonic_ms)
        self.replicas = Replicas()
        self.flusher = Flusher(executor, self.clock, self.replicas.logs.directories.disk_failed)
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


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as made:
        yield made


def test_retention_deletes_old_segments_and_their_files_go_later(executor: ThreadPoolExecutor) -> None:
    house = House(executor, log_retention_check_interval_ms="1000")
    house.replicas.create("t", retention_ms="5000", segment_bytes="1048576", file_delete_delay_ms="20000")
    house.append("t", 3)
    log = house.replicas.manager.partition(TopicPartition("t", 0)).log
    house.pass_ms(3_000)
    assert log.log_start_offset == 0
    house.pass_ms(3_000)
    assert log.log_start_offset == 3
    deleted = [name for name in house.replicas.fs.listdir(log.directory) if name.endswith(".deleted")]
    assert deleted
    house.pass_ms(15_000)
    house.pass_ms(15_000)
    executor.submit(lambda: None).result()
    left = [name for name in house.replicas.fs.listdir(log.directory) if name.endswith(".deleted")]
    assert not left


def test_a_disk_that_cannot_delete_files_goes_offline(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(executor)
    house.replicas.create("t", file_delete_delay_ms="0")
    house.append("t")
    house.replicas.logs.delete_all([TopicPartition("t", 0)], house.clock.now_ms)
    threads: list[str] = []

    def refuse(path: str) -> None:
        threads.append(threading.current_thread().name)
        raise OSError(30, "Read-only file system", path)

    monkeypatch.setattr(house.replicas.fs, "rmtree", refuse)
    house.pass_ms(15_001)
    executor.submit(lambda: None).result()
    assert threads != [threading.current_thread().name]
    assert house.replicas.logs.directories.online
    house.pass_ms(15_001)
    assert not house.replicas.logs.directories.online


def test_a_delete_delay_shorter_than_the_interval_is_kept(executor: ThreadPoolExecutor) -> None:
    house = House(executor, log_segment_delete_delay_ms="200")
    house.replicas.create("t", file_delete_delay_ms="200")
    house.append("t")
    house.replicas.logs.delete_all([TopicPartition("t", 0)], house.clock.now_ms)
    house.pass_ms(100)
    assert any(name.endswith("-delete") for name in house.replicas.fs.listdir("/data"))
    house.pass_ms(150)
    executor.submit(lambda: None).result()
    assert not any(name.endswith("-delete") for name in house.replicas.fs.listdir("/data"))


async def test_a_topic_with_flush_ms_is_flushed_after_that_time(executor: ThreadPoolExecutor) -> None:
    house = House(executor)
    house.replicas.create("t", flush_ms="2000")
    house.append("t")
    log = house.replicas.manager.partition(TopicPartition("t", 0)).log
    house.pass_ms(1_000)
    await house.flusher.close()
    assert log.recovery_point == 0
    house.pass_ms(1_500)
    await house.flusher.close()
    assert log.recovery_point == 1


def test_checkpoints_are_written_at_their_intervals(executor: ThreadPoolExecutor) -> None:
    house = House(executor, replica_high_watermark_checkpoint_interval_ms="5000")
    house.replicas.create("t")
    house.append("t", 2)
    house.pass_ms(5_001)
    executor.submit(lambda: None).result()
    text = house.replicas.fs.read("/data/replication-offset-checkpoint").decode()
    assert "t 0 2" in text


def test_an_interval_of_0_does_not_run_a_job_continuously(executor: ThreadPoolExecutor) -> None:
    house = House(
        executor,
        log_flush_offset_checkpoint_interval_ms="0",
        log_flush_start_offset_checkpoint_interval_ms="0",
        log_flush_scheduler_interval_ms="0",
        replica_high_watermark_checkpoint_interval_ms="-1",
    )
    house.replicas.create("t")
    house.append("t")
    for _ in range(20):
        house.pass_ms(1)
    executor.submit(lambda: None).result()
    assert not house.replicas.fs.exists("/data/recovery-point-offset-checkpoint")
    assert not house.replicas.fs.exists("/data/replication-offset-checkpoint")
    assert sum(entry._bucket is not None for entry in house.housekeeping._entries.values()) == 5


def test_a_failing_job_is_logged_and_run_again(
    executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house = House(executor, log_retention_check_interval_ms="1000")
    calls: list[int] = []

    def fail(now_ms: int) -> int:
        calls.append(now_ms)
        raise RuntimeError("out of order")

    monkeypatch.setattr(house.replicas.logs.maintenance, "apply_retention", fail)
    house.pass_ms(1_001)
    house.pass_ms(1_001)
    assert calls == [NOW_MS + 1_001, NOW_MS + 2_002]
    assert "Periodic job 'retention' failed" in caplog.text


def test_no_job_runs_after_stop(executor: ThreadPoolExecutor) -> None:
    house = House(executor)
    assert len(house.timers) > 0
    house.housekeeping.stop()
    assert len(house.timers) == 0
