"""The periodic jobs of a broker's logs, each at its own interval.

    retention            log.retention.check.interval.ms
    deleted files        DELETED_FILES_INTERVAL_MS, or log.segment.delete.delay.ms if shorter
    flush                FLUSH_INTERVAL_MS, or log.flush.scheduler.interval.ms if shorter
    recovery points      log.flush.offset.checkpoint.interval.ms
    log start offsets    log.flush.start.offset.checkpoint.interval.ms
    high watermarks      replica.high.watermark.checkpoint.interval.ms
    producer expiry      producer.id.expiration.check.interval.ms
    in-sync replicas     half of replica.lag.time.max.ms
    disk faults          FAULTS_INTERVAL_MS

As in Kafka, a job whose interval is 0 or less does not run; the shutdown then does its work.

I/O: jobs run on the event loop's timers, retention and flush in slices. The flusher's threads flush logs.
`executor` writes checkpoints and deletes files, in one run of each kind at a time.
Source: kafka.log.LogManager, kafka.server.ReplicaManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Final, TypeAlias, TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.flusher import Flusher
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.purgatory.timing_wheel import TimerEntry
from tidelog.broker.scheduling.slices import Slices, Work
from tidelog.protocol.steps import Steps
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.directory_work import DirectoryWork
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.disk.errors import StorageFailure

logger = logging.getLogger(__name__)

DELETED_FILES_INTERVAL_MS: Final = 15_000
DELETED_FILES_INTERVAL_MS_MIN: Final = 100
FLUSH_INTERVAL_MS: Final = 1_000
"""Sealed segments become durable soon after they are sealed, so that recovery is short."""
FAULTS_INTERVAL_MS: Final = 10_000

T = TypeVar("T")
FailedWork: TypeAlias = tuple[DirectoryWork, OSError | StorageFailure]


class Housekeeping:
    """The periodic jobs; one that fails is logged and runs again after its interval."""

    def __init__(
        self,
        logs: LogManager,
        flusher: Flusher,
        executor: Executor,
        timers: Timers,
        clock: Clock,
        config: BrokerConfig,
        check_isrs: Callable[[], None] | None = None,
    ) -> None:
        self._logs = logs
        self._flusher = flusher
        self._executor = executor
        self._running: dict[str, Future[list[FailedWork]]] = {}
        self._slices = Slices(clock, executor)
        self._works: dict[str, Work | None] = {}
        """The last run of each job that runs in slices; None if its first slice completed it."""
        self._timers = timers
        self._clock = clock
        self._entries: dict[str, TimerEntry] = {}
        self._jobs: list[tuple[str, int, Callable[[], object]]] = [
            ("retention", config.log_retention_check_interval_ms, self._apply_retention),
            ("deleted files", _deleted_files_interval_ms(config), self._delete_expired),
            ("flush", _flush_interval_ms(config), self._flush_sealed),
            (
                "recovery points",
                config.log_flush_offset_checkpoint_interval_ms,
                partial(self._checkpoint, CheckpointKind.RECOVERY_POINT),
            ),
            (
                "log start offsets",
                config.log_flush_start_offset_checkpoint_interval_ms,
                partial(self._checkpoint, CheckpointKind.LOG_START_OFFSET),
            ),
            (
                "high watermarks",
                config.replica_high_watermark_checkpoint_interval_ms,
                partial(self._checkpoint, CheckpointKind.HIGH_WATERMARK),
            ),
            (
                "producer expiry",
                config.producer_id_expiration_check_interval_ms,
                self._remove_expired_producers,
            ),
        ]
        self._jobs.append(("disk faults", FAULTS_INTERVAL_MS, logs.maintenance.report_faults))
        if check_isrs is not None:
            interval_ms = max(1, config.replica_lag_time_max_ms // 2)
            self._jobs.append(("in-sync replicas", interval_ms, check_isrs))

    def start(self) -> None:
        """Schedule every job; its first run is after its interval."""
        for name, interval_ms, work in self._jobs:
            if interval_ms > 0:
                self._schedule(name, interval_ms, work)

    def stop(self) -> None:
        """Stop all jobs. The next start continues with segments that retention was going to delete."""
        for entry in self._entries.values():
            entry.cancel()
        self._entries.clear()
        self._slices.close()

    def _schedule(self, name: str, interval_ms: int, work: Callable[[], object]) -> None:
        def run() -> None:
            self._schedule(name, interval_ms, work)
            try:
                work()
            except Exception:
                logger.exception("Periodic job '%s' failed; retrying in %d ms", name, interval_ms)

        self._entries[name] = self._timers.schedule(interval_ms, run)

    def _apply_retention(self) -> None:
        steps = self._logs.maintenance.apply_retention(self._clock.wall_ms())
        self._in_slices("retention", steps, _log_deletions)

    def _delete_expired(self) -> None:
        self._in_background("removal", lambda: self._logs.maintenance.planned_removals(self._clock.wall_ms()))

    def _checkpoint(self, kind: CheckpointKind) -> None:
        self._in_background(kind.value, lambda: self._logs.maintenance.planned_checkpoints(kind))

    def _in_background(self, name: str, plan: Callable[[], list[DirectoryWork]]) -> None:
        """Run disk operations in a thread unless the last run continues; report its failures."""
        running = self._running.get(name)
        if running is not None:
            if not running.done():
                return
            del self._running[name]
            for work, error in running.result():
                self._logs.maintenance.work_failed(work, error)
        works = plan()
        if works:
            self._running[name] = self._executor.submit(_run_all, works)

    def _in_slices(self, name: str, steps: Steps[T], on_completed: Callable[[T], None]) -> None:
        """Run the steps of a job in slices, unless its last run continues; log its failure."""

        def on_failed(error: Exception) -> None:
            logger.error("Periodic job '%s' failed; it runs again after its interval", name, exc_info=error)

        last = self._works.get(name)
        if last is None or last.is_ended:
            self._works[name] = self._slices.start(steps, on_completed, on_failed)

    def _flush_sealed(self) -> None:
        steps = self._logs.maintenance.request_flushes(self._flusher.flush, self._clock.wall_ms())
        self._in_slices("flush", steps, lambda _: None)

    def _remove_expired_producers(self) -> None:
        self._logs.maintenance.remove_expired_producers(self._clock.wall_ms())


def _log_deletions(segment_count: int) -> None:
    if segment_count:
        logger.info("Retention deleted %d segments", segment_count)


def _deleted_files_interval_ms(config: BrokerConfig) -> int:
    """Return the interval between deletions, which is at most the delay after which files are deleted."""
    delay_ms = max(DELETED_FILES_INTERVAL_MS_MIN, config.log_segment_delete_delay_ms)
    return min(DELETED_FILES_INTERVAL_MS, delay_ms)


def _flush_interval_ms(config: BrokerConfig) -> int:
    configured_ms = config.log_flush_scheduler_interval_ms
    return min(FLUSH_INTERVAL_MS, configured_ms) if configured_ms > 0 else FLUSH_INTERVAL_MS


def _run_all(works: list[DirectoryWork]) -> list[FailedWork]:
    """Run all operations, in a thread; return those that failed with their errors."""
    failed: list[FailedWork] = []
    for work in works:
        try:
            work.run()
        except (OSError, StorageFailure) as error:
            failed.append((work, error))
    return failed
