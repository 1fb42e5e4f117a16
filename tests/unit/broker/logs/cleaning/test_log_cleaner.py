"""The log cleaner with real logs and threads: compacted logs, interruptions, and failures."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from tests.support.logs.cleaning_workers import ThreadWorker
from tests.support.logs.compaction import COMPACTED, append_keyed, latest_of, read_log, roll
from tests.support.logs.log_managers import TOPIC_ID, delete_logs, get_or_create_log, start_log_manager
from tests.support.nodes.exposed_metrics import metric_samples
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import SystemClock
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.cleaning.log_cleaner import LogCleaner
from tidelog.broker.logs.cleaning.messages import CleaningLimits
from tidelog.broker.logs.cleaning.metrics import report_cleaning
from tidelog.broker.logs.cleaning.worker_process import FilledMap, WorkerDied
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.compaction.cleaning import OffsetMapFiller
from tidelog.storage.compaction.plan import open_cleaned
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.compaction.task import CleaningTask
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.disk.checkpoints import CLEANER_OFFSET_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment
from tidelog.testing.simulation.crash_file_system import CrashFileSystem


class HeldRequests:
    """Holds the request number `held_at`, counted from 1, until `free` is set."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.held_at = 0
        self.free = Event()

    def on_request(self, kind: str) -> None:
        self.kinds.append(kind)
        assert len(self.kinds) != self.held_at or self.free.wait(TIMEOUT_S)


class LogCleanerFixture:
    """A log manager on a disk that can fail, and a log cleaner with a backoff of 10 ms."""

    def __init__(self) -> None:
        self.disk = CrashFileSystem()
        self.logs: LogManager = start_log_manager(self.disk)
        self.thread = ThreadPoolExecutor(2)
        self.requests = HeldRequests()
        self.workers: list[ThreadWorker] = []
        self.values = {"log.cleaner.backoff.ms": "10", "log.cleaner.io.buffer.size": "8192"}
        self.cleaner = LogCleaner(self.logs, self.start_worker, self.thread, SystemClock(), self.config)

    def start_worker(self) -> ThreadWorker:
        self.workers.append(ThreadWorker(self.disk, self.requests.on_request))
        return self.workers[-1]

    def config(self) -> BrokerConfig:
        return BrokerConfig({"node.id": "1", "listeners": "PLAINTEXT://:9092", **self.values})

    def log(self, name: str, *, rounds: int = 3, **config: Any) -> PartitionLog:
        """Return a log with sealed segments that all have the same two keys."""
        settings = replace(COMPACTED, **config)
        log = get_or_create_log(self.logs, TopicPartition(name, 0), TOPIC_ID, settings, 0)
        self.write(log, rounds)
        return log

    def write(self, log: PartitionLog, rounds: int = 3) -> None:
        for number in range(rounds):
            append_keyed(log, ("a", f"{number}"), ("b", "x" * 100))
            roll(log)

    def leftover_files(self, log: PartitionLog) -> list[str]:
        names = self.disk.listdir(log.directory)
        return [name for name in names if name.endswith((".cleaned", ".swap"))]


@pytest.fixture
async def fixture() -> AsyncIterator[LogCleanerFixture]:
    fixture = LogCleanerFixture()
    yield fixture
    fixture.requests.free.set()
    await fixture.cleaner.close()
    fixture.thread.shutdown()


def is_compacted(log: PartitionLog) -> bool:
    return len(read_log(log)) == 2 and log.first_dirty_offset == log.log_end_offset


async def test_dirty_logs_are_compacted_and_the_offset_is_checkpointed(fixture: LogCleanerFixture) -> None:
    first, second = fixture.log("first"), fixture.log("second", rounds=5)
    plain = fixture.log("plain", cleanup_policy=("delete",))
    fixture.cleaner.start()
    await eventually(lambda: is_compacted(first) and is_compacted(second))
    assert len(read_log(plain)) == 6 and plain.first_dirty_offset is None

    def offsets() -> dict[TopicPartition, int]:
        checkpoints: dict[TopicPartition, int] = {}
        for directory in ("/a", "/b"):
            checkpoints |= OffsetCheckpoint(fixture.disk, f"{directory}/{CLEANER_OFFSET_CHECKPOINT}").read()
        return checkpoints

    await eventually(lambda: offsets() == {first.topic_partition: 6, second.topic_partition: 10})
    await fixture.cleaner.close()
    fixture.logs.shutdown(0)
    again = start_log_manager(fixture.disk)
    assert {log.topic_partition: log.first_dirty_offset for log in again.logs} == {
        first.topic_partition: 6,
        second.topic_partition: 10,
        plain.topic_partition: None,
    }


async def test_a_deleted_partition_is_removed_from_the_checkpoint(fixture: LogCleanerFixture) -> None:
    log = fixture.log("t")
    fixture.cleaner.start()
    await eventually(lambda: is_compacted(log))
    await fixture.cleaner.close()
    delete_logs(fixture.logs, [log.topic_partition], 0)
    for directory in ("/a", "/b"):
        assert not OffsetCheckpoint(fixture.disk, f"{directory}/{CLEANER_OFFSET_CHECKPOINT}").read()
    assert fixture.log("t", rounds=0).first_dirty_offset is None


async def test_a_log_below_the_dirty_ratio_is_not_compacted(fixture: LogCleanerFixture) -> None:
    log = fixture.log("t", min_cleanable_dirty_ratio=0.6)
    fixture.cleaner.start()
    await eventually(lambda: is_compacted(log))
    before = len(read_log(log))
    fixture.write(log, 1)
    request_count = len(fixture.requests.kinds)
    await eventually(lambda: 0.4 < fixture.cleaner.max_dirty_ratio < 0.6)
    assert len(fixture.requests.kinds) == request_count and len(read_log(log)) == before + 2
    fixture.write(log, 2)
    await eventually(lambda: is_compacted(log))


async def test_a_corrupt_log_is_excluded_and_others_are_compacted(
    fixture: LogCleanerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    damaged = fixture.log("damaged", rounds=6)
    fixture.disk.flip_bit(damaged.segments.first.file.path, 8 * 80)
    metrics = BrokerMetrics()
    report_cleaning(metrics, fixture.cleaner, fixture.logs)
    caplog.set_level(logging.ERROR)
    fixture.cleaner.start()
    await eventually(lambda: damaged in fixture.cleaner.uncleanable)
    healthy = fixture.log("healthy")
    await eventually(lambda: is_compacted(healthy))
    assert "Cannot compact damaged-0: " in caplog.text and "checksum" in caplog.text
    assert len(fixture.logs.directories.online) == 2
    exposed_metrics = metric_samples(metrics, "kafka_log_logcleaner")
    assert exposed_metrics["manager_uncleanable_bytes"] in (0, damaged.size_bytes)
    assert exposed_metrics["_deadthreadcount"] == 0
    assert 0 < exposed_metrics["_cleaner_recopy_percent"] < 100


async def test_compaction_resumes_after_a_full_disk(
    fixture: LogCleanerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    log = fixture.log("t")
    fixture.disk.free_bytes = 10
    fixture.cleaner.start()
    await eventually(lambda: "it is retried later" in caplog.text)
    assert len(fixture.logs.directories.online) == 2 and not fixture.cleaner.uncleanable
    assert len(read_log(log)) == 6
    fixture.disk.free_bytes = None
    await eventually(lambda: is_compacted(log))


async def test_a_log_that_does_not_fit_on_the_disk_does_not_delay_others(fixture: LogCleanerFixture) -> None:
    large = fixture.log("large", rounds=1)
    for number in range(20):
        append_keyed(large, (f"{number}", "x" * 1000))
    roll(large)
    small = fixture.log("small")
    small.set_first_dirty_offset(2)  # less dirty than the other
    fixture.disk.free_bytes = 2000
    fixture.cleaner.start()
    await eventually(lambda: is_compacted(small))
    assert len(read_log(large)) == 22 and not fixture.cleaner.uncleanable
    fixture.disk.free_bytes = None
    await eventually(lambda: large.first_dirty_offset == large.log_end_offset)


async def test_a_failing_disk_takes_its_directory_offline(fixture: LogCleanerFixture) -> None:
    log = fixture.log("t")
    fixture.disk.fail_next_fsync(".log.cleaned")
    fixture.cleaner.start()
    await eventually(lambda: len(fixture.logs.directories.online) == 1)
    assert log.failure is not None


async def test_results_are_discarded_after_a_truncation(fixture: LogCleanerFixture) -> None:
    log = fixture.log("t")
    fixture.requests.held_at = 2
    fixture.cleaner.start()
    await eventually(lambda: fixture.requests.kinds == ["fill", "clean"])
    log.truncate_to(3, below_high_watermark=True)
    left = read_log(log)
    assert log.log_end_offset == 2
    roll(log)
    fixture.requests.free.set()
    await eventually(lambda: log.first_dirty_offset == 2)
    assert read_log(log) == left
    assert not fixture.leftover_files(log)


async def test_a_truncation_during_compaction_is_not_taken_for_corruption(
    fixture: LogCleanerFixture,
) -> None:
    log = fixture.log("t", rounds=1)
    for number in range(3):
        append_keyed(log, ("a", f"{number}" * 5000))
    roll(log)
    fixture.requests.held_at = 1
    fixture.cleaner.start()
    await eventually(lambda: fixture.requests.kinds == ["fill"])
    log.truncate_to(3, below_high_watermark=True)
    roll(log)
    fixture.requests.free.set()
    await eventually(lambda: log.first_dirty_offset == 3 or log in fixture.cleaner.uncleanable)
    assert not fixture.cleaner.uncleanable


async def test_results_are_discarded_after_retention_deleted_their_segments(
    fixture: LogCleanerFixture,
) -> None:
    log = fixture.log("t", cleanup_policy=("compact", "delete"))
    fixture.requests.held_at = 1
    fixture.cleaner.start()
    await eventually(lambda: len(fixture.requests.kinds) == 1)
    log.advance_log_start_offset(4)
    log.retention.apply(0)
    fixture.requests.free.set()
    await eventually(lambda: is_compacted(log))
    assert log.log_start_offset == 4
    assert not fixture.leftover_files(log)


async def test_the_deletion_of_a_partition_ends_its_compaction_without_a_log_line(
    fixture: LogCleanerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    log = fixture.log("t")
    fixture.requests.held_at = 1
    fixture.cleaner.start()
    await eventually(lambda: len(fixture.requests.kinds) == 1)
    delete_logs(fixture.logs, [log.topic_partition], 0)
    fixture.requests.free.set()
    await eventually(lambda: not fixture.cleaner._in_progress)
    assert len(fixture.logs.directories.online) == 2 and not fixture.cleaner.uncleanable
    assert not caplog.records


OVERLAPPING = ["fill", "clean", "clean", "clean", "sync"]
"""The requests for a log of three segments, if each becomes one. Those from the third `clean` on overlap."""


@pytest.fixture(params=[4, 5])
async def overlapped(request: pytest.FixtureRequest, fixture: LogCleanerFixture) -> PartitionLog:
    """Return a log, the first segments of which are replaced while a later request is held."""
    log = fixture.log("t", segment_bytes=200)
    fixture.requests.held_at = request.param
    fixture.cleaner.start()
    first = log.segments.first
    await eventually(lambda: fixture.requests.kinds == OVERLAPPING[: request.param])
    await eventually(lambda: log.segments.first is not first)
    return log


async def test_a_truncation_while_groups_overlap_discards_those_that_are_not_replaced(
    fixture: LogCleanerFixture, overlapped: PartitionLog
) -> None:
    overlapped.truncate_to(5, below_high_watermark=True)
    fixture.write(overlapped, 1)
    fixture.requests.free.set()
    await eventually(lambda: is_compacted(overlapped))
    assert latest_of(read_log(overlapped)) == {b"a": (4, b"0"), b"b": (5, b"x" * 100)}
    assert not fixture.leftover_files(overlapped)
    assert not fixture.cleaner.uncleanable and len(fixture.logs.directories.online) == 2


async def test_retention_while_groups_overlap_discards_those_that_are_not_replaced(
    fixture: LogCleanerFixture, overlapped: PartitionLog
) -> None:
    overlapped.update_config(replace(overlapped.config, cleanup_policy=("compact", "delete")))
    overlapped.advance_log_start_offset(5)
    overlapped.retention.apply(0)
    fixture.requests.free.set()
    await eventually(lambda: overlapped.first_dirty_offset == 6)
    assert latest_of(read_log(overlapped)) == {b"b": (5, b"x" * 100)}
    assert not fixture.leftover_files(overlapped)
    assert not fixture.cleaner.uncleanable and len(fixture.logs.directories.online) == 2


async def test_the_deletion_of_a_partition_while_groups_overlap_leaves_no_file(
    fixture: LogCleanerFixture, overlapped: PartitionLog, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    directory = overlapped.directory
    delete_logs(fixture.logs, [overlapped.topic_partition], 0)
    fixture.requests.free.set()
    await eventually(lambda: not fixture.cleaner._in_progress)
    assert not fixture.disk.exists(directory)
    assert len(fixture.logs.directories.online) == 2 and not fixture.cleaner.uncleanable
    assert not caplog.records


async def test_the_death_of_a_worker_while_groups_overlap_loses_only_those_that_are_not_replaced(
    fixture: LogCleanerFixture, overlapped: PartitionLog
) -> None:
    fixture.workers[0].kill()
    fixture.requests.free.set()
    await eventually(lambda: fixture.workers[0].is_closed)
    assert not fixture.leftover_files(overlapped)
    await eventually(lambda: is_compacted(overlapped))
    assert len(fixture.workers) == 2


async def test_a_failed_replacement_ends_the_round_and_its_worker(
    fixture: LogCleanerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fixture.log("t", segment_bytes=200)
    shortages = [OSError(errno.EMFILE, "Too many open files")]

    def open_or_fail(log: PartitionLog, group: Sequence[SourceSegment]) -> LogSegment:
        if shortages:
            raise shortages.pop()
        return open_cleaned(log, group)

    monkeypatch.setattr("tidelog.broker.logs.cleaning.round.open_cleaned", open_or_fail)
    fixture.cleaner.start()
    await eventually(lambda: is_compacted(log))
    assert [worker.is_closed for worker in fixture.workers] == [True, False]
    assert not fixture.cleaner.uncleanable and not fixture.leftover_files(log)


async def test_a_search_is_requested_during_a_long_back_off(fixture: LogCleanerFixture) -> None:
    fixture.values["log.cleaner.backoff.ms"] = "3600000"
    log = fixture.log("t", cleanup_policy=("delete",))
    fixture.cleaner.start()
    await eventually(lambda: fixture.cleaner.idle_ms > 20)
    assert not fixture.requests.kinds
    log.update_config(replace(log.config, cleanup_policy=("compact",)))
    fixture.cleaner.search_now()
    await eventually(lambda: is_compacted(log))


async def test_a_stop_ends_a_compaction_in_progress(fixture: LogCleanerFixture) -> None:
    log = fixture.log("t", rounds=200)
    fixture.values["log.cleaner.io.max.bytes.per.second"] = "2000"
    fixture.cleaner.start()
    await eventually(lambda: len(fixture.requests.kinds) == 1)
    await asyncio.wait_for(fixture.cleaner.close(), TIMEOUT_S)
    assert not fixture.leftover_files(log)
    assert len(read_log(log)) == 400


async def test_dynamic_configs_are_followed(fixture: LogCleanerFixture) -> None:
    fixture.values["log.cleaner.enable"] = "false"
    log = fixture.log("t")
    fixture.cleaner.start()
    assert fixture.cleaner.dead_count == 0 and len(fixture.requests.kinds) == 0
    fixture.values["log.cleaner.enable"] = "true"
    fixture.values["log.cleaner.threads"] = "2"
    fixture.cleaner.update_settings()
    await eventually(lambda: is_compacted(log))
    assert latest_of(read_log(log)) == {b"a": (4, b"2"), b"b": (5, b"x" * 100)}


async def test_an_unexpected_error_excludes_a_log_and_the_cleaner_continues(
    fixture: LogCleanerFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise AssertionError("a fault of ours")

    monkeypatch.setattr(OffsetMapFiller, "fill", fail)
    log = fixture.log("t")
    fixture.cleaner.start()
    await eventually(lambda: log in fixture.cleaner.uncleanable)
    assert "a fault of ours" in caplog.text
    await eventually(lambda: fixture.workers[0].is_closed)
    assert fixture.cleaner.dead_count == 0


async def test_the_death_of_a_worker_loses_only_its_round(
    fixture: LogCleanerFixture, caplog: pytest.LogCaptureFixture
) -> None:
    log = fixture.log("t")
    fixture.requests.held_at = 2
    fixture.cleaner.start()
    await eventually(lambda: fixture.requests.kinds == ["fill", "clean"])
    fixture.workers[0].kill()
    fixture.requests.free.set()
    await eventually(lambda: "the worker of the log cleaner has died: killed" in caplog.text)
    assert fixture.workers[0].is_closed and not fixture.leftover_files(log)
    assert not fixture.cleaner.uncleanable and len(fixture.logs.directories.online) == 2
    await eventually(lambda: is_compacted(log))
    assert len(fixture.workers) == 2


async def test_a_log_that_kills_each_worker_does_not_starve_other_logs(
    fixture: LogCleanerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each back-off is longer than several searches for dirty logs.
    backoff = ExponentialBackoff(initial_ms=200, max_ms=200, jitter=0.0)
    monkeypatch.setattr("tidelog.broker.logs.cleaning.worker_slot.BACKOFF", backoff)
    fill = ThreadWorker.fill

    def fill_or_die(worker: ThreadWorker, task: CleaningTask, limits: CleaningLimits) -> FilledMap:
        if task.directory.endswith("/bad-0"):
            raise WorkerDied("killed")
        return fill(worker, task, limits)

    monkeypatch.setattr(ThreadWorker, "fill", fill_or_die)
    fixture.log("bad", rounds=9)
    fixture.cleaner.start()
    await eventually(lambda: len(fixture.workers) == 1)
    other = fixture.log("other", rounds=3, min_cleanable_dirty_ratio=0.1)
    other.set_first_dirty_offset(2)  # less dirty than the log that kills workers
    await eventually(lambda: other.first_dirty_offset == 6)


@pytest.mark.parametrize("shortage", [MemoryError(), OSError(errno.ENOMEM, "Cannot allocate memory")])
async def test_a_log_whose_worker_has_too_little_memory_is_compacted_later(
    fixture: LogCleanerFixture,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    shortage: Exception,
) -> None:
    monkeypatch.setattr(
        "tidelog.broker.logs.cleaning.worker_slot.BACKOFF",
        ExponentialBackoff(initial_ms=50, max_ms=50, jitter=0.0),
    )
    fill, shortages = OffsetMapFiller.fill, [shortage]

    def fill_or_fail(filler: OffsetMapFiller) -> int:
        if shortages:
            raise shortages.pop()
        return fill(filler)

    monkeypatch.setattr(OffsetMapFiller, "fill", fill_or_fail)
    log = fixture.log("t")
    fixture.cleaner.start()
    await eventually(lambda: is_compacted(log))
    assert "the worker of the log cleaner had too little memory" in caplog.text
    assert "the next one starts in" in caplog.text
    assert [worker.is_closed for worker in fixture.workers] == [True, False]
    assert not fixture.cleaner.uncleanable and len(fixture.logs.directories.online) == 2


async def test_a_node_with_too_little_memory_compacts_a_log_later(
    fixture: LogCleanerFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shortages = [MemoryError()]

    def open_or_fail(log: PartitionLog, group: Sequence[SourceSegment]) -> LogSegment:
        if shortages:
            raise shortages.pop()
        return open_cleaned(log, group)

    monkeypatch.setattr("tidelog.broker.logs.cleaning.round.open_cleaned", open_or_fail)
    log = fixture.log("t")
    fixture.cleaner.start()
    await eventually(lambda: is_compacted(log))
    assert "too little memory; it is retried later" in caplog.text
    assert not fixture.cleaner.uncleanable and not fixture.leftover_files(log)


async def test_each_worker_is_closed_with_the_cleaner(fixture: LogCleanerFixture) -> None:
    log = fixture.log("t")
    fixture.cleaner.start()
    await eventually(lambda: is_compacted(log))
    assert [worker.is_closed for worker in fixture.workers] == [False]
    await fixture.cleaner.close()
    assert [worker.is_closed for worker in fixture.workers] == [True]
