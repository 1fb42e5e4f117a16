"""The broker's periodic work on its logs, each kind at its own interval.

    retention            log.retention.check.interval.ms
    deleted files        DELETED_FILES_INTERVAL_MS
    flush                FLUSH_INTERVAL_MS, or log.flush.scheduler.interval.ms if shorter
    recovery points      log.flush.offset.checkpoint.interval.ms
    log start offsets    log.flush.start.offset.checkpoint.interval.ms
    high watermarks      replica.high.watermark.checkpoint.interval.ms
    producer expiry      producer.id.expiration.check.interval.ms

I/O: runs on the event loop's timers; what syncs a log goes through the flusher's threads, what removes
files through `executor`, one round at a time.
Source: kafka.log.LogManager, kafka.server.ReplicaManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TypeAlias

from broker.clock import Clock
from broker.config import BrokerConfig
from broker.flusher import Flusher
from broker.purgatory.timers import Timers
from broker.purgatory.timing_wheel import TimerEntry
from storage.log_manager import LogManager, Removal

logger = logging.getLogger(__name__)

DELETED_FILES_INTERVAL_MS = 15_000
# Sealed segments become durable soon after they are sealed, which keeps recovery short.
FLUSH_INTERVAL_MS = 1_000

FailedRemoval: TypeAlias = tuple[Removal, OSError]


class Housekeeping:
    """Starts with `start`, ends with `stop`; a job that fails is logged and comes round again."""

    def __init__(
        self,
        logs: LogManager,
        flusher: Flusher,
        executor: Executor,
        timers: Timers,
        clock: Clock,
        config: BrokerConfig,
    ) -> None:
        self._logs = logs
        self._flusher = flusher
        self._executor = executor
        self._removing: Future[list[FailedRemoval]] | None = None
        self._timers = timers
        self._clock = clock
        self._entries: dict[str, TimerEntry] = {}
        self._jobs: list[tuple[str, int, Callable[[], object]]] = [
            ("retention", config.log_retention_check_interval_ms, self._apply_retention),
            ("deleted files", DELETED_FILES_INTERVAL_MS, self._delete_expired),
            ("flush", min(FLUSH_INTERVAL_MS, config.log_flush_scheduler_interval_ms), self._flush_due),
            (
                "recovery points",
                config.log_flush_offset_checkpoint_interval_ms,
                logs.checkpoint_recovery_points,
            ),
            (
                "log start offsets",
                config.log_flush_start_offset_checkpoint_interval_ms,
                logs.checkpoint_log_start_offsets,
            ),
            (
                "high watermarks",
                config.replica_high_watermark_checkpoint_interval_ms,
                logs.checkpoint_high_watermarks,
            ),
            (
                "producer expiry",
                config.producer_id_expiration_check_interval_ms,
                self._remove_expired_producers,
            ),
        ]

    def start(self) -> None:
        """Schedule every job, the first time after its interval."""
        for name, interval_ms, work in self._jobs:
            self._schedule(name, interval_ms, work)

    def stop(self) -> None:
        """Run no job any more."""
        for entry in self._entries.values():
            entry.cancel()
        self._entries.clear()

    def _schedule(self, name: str, interval_ms: int, work: Callable[[], object]) -> None:
        def run() -> None:
            self._schedule(name, interval_ms, work)
            try:
                work()
            except Exception:
                logger.exception("housekeeping of %s failed; next try in %d ms", name, interval_ms)

        self._entries[name] = self._timers.schedule(interval_ms, run)

    def _apply_retention(self) -> None:
        now_ms = self._clock.wall_ms()
        for log in list(self._logs.logs):
            log.maybe_roll(now_ms)
        deleted = self._logs.apply_retention(now_ms)
        if deleted:
            logger.info("retention deleted %d segments", deleted)

    def _delete_expired(self) -> None:
        """Have what is due removed in a thread: giving back a large file takes the disk a while."""
        if self._removing is not None:
            if not self._removing.done():
                return
            done, self._removing = self._removing, None
            for removal, error in done.result():
                self._logs.removal_failed(removal, error)
        removals = self._logs.take_removals(self._clock.wall_ms())
        if removals:
            self._removing = self._executor.submit(_remove, removals)

    def _flush_due(self) -> None:
        for log in self._logs.logs_to_flush(self._clock.wall_ms()):
            self._flusher.flush(log)

    def _remove_expired_producers(self) -> None:
        self._logs.remove_expired_producers(self._clock.wall_ms())


def _remove(removals: list[Removal]) -> list[FailedRemoval]:
    failed: list[FailedRemoval] = []
    for removal in removals:
        try:
            removal.run()
        except OSError as error:
            failed.append((removal, error))
    return failed
