"""Compacts the logs of a node, those with the highest dirty ratio first, log.cleaner.threads at a time.

Each cleaner is a task with a worker process, which exists while there is work.

| failure | effect |
|---|---|
| the log was truncated, deleted, moved or set offline meanwhile | the new files are deleted |
| no space on the disk, no descriptors, no memory | a warning; the log is retried after all others |
| the disk fails | its directory goes offline |
| the worker process dies or has no memory | a warning; its round is lost; a retry after a back-off |
| any other error, such as records that cannot be read | the log is uncleanable until the next start |

Bounds: log.cleaner.dedupe.buffer.size and log.cleaner.io.buffer.size are divided among the cleaners.
Source: LogCleaner, LogCleanerManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import Final, NamedTuple

from tidelog.base.clock import Clock
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.logs.cleaning.messages import CleaningLimits, WorkerOutOfMemory
from tidelog.broker.logs.cleaning.round import CleaningAborted, CleaningRound, CleaningStats
from tidelog.broker.logs.cleaning.worker_process import StartWorker, WorkerDied
from tidelog.broker.logs.cleaning.worker_slot import WorkerSlot
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.storage.compaction.cleanable import Cleanable, find_cleanable, is_cleaned, is_due
from tidelog.storage.directories.directory_checkpoints import CheckpointKind
from tidelog.storage.directories.log_manager import LogManager
from tidelog.storage.disk.errors import CorruptFile, StorageFailure
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

_TEMPORARY_ERRORS: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM})
_IO_BUFFER_BYTES_MIN: Final = 4096


class _Dirtiest(NamedTuple):
    """The log to compact next, and its part that can be compacted."""

    log: PartitionLog
    cleanable: Cleanable


class LogCleaner:
    """The cleaners of a node; `config` returns the current configuration.

    Close it before the logs are closed.
    """

    def __init__(
        self,
        logs: LogManager,
        start_worker: StartWorker,
        thread: Executor,
        clock: Clock,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._logs = logs
        self._start_worker = start_worker
        self._thread = thread
        self._clock = clock
        self._config = config
        self._is_stopping = False
        self._is_started = False
        self._wake_event = asyncio.Event()
        self._round_ended = asyncio.Event()
        self._cleaners: list[asyncio.Task[None]] = []
        self._in_progress: set[PartitionLog] = set()
        self._postponed: set[PartitionLog] = set()
        self._paused: set[PartitionLog] = set()
        self._last_run_ms = clock.monotonic_ms()
        self.uncleanable: set[PartitionLog] = set()
        """Logs whose compaction failed; they are not compacted any more."""
        self.stats: dict[int, CleaningStats] = {}
        """The statistics of each cleaner's last round."""
        self.max_dirty_ratio = 0.0
        """The highest dirty ratio that the last search found; from 0 to 1."""
        self.max_delay_ms = 0
        """How much longer than max.compaction.lag.ms a record had waited at the last search."""

    # -- starting and stopping

    def start(self) -> None:
        """Start the cleaners if log.cleaner.enable is true."""
        self._is_started = True
        self.update_settings()

    def update_settings(self) -> None:
        """Start cleaners up to log.cleaner.threads; each cleaner reads the other settings for each round."""
        config = self._config()
        thread_count = config.log_cleaner_threads if config.log_cleaner_enable else 0
        if self._is_stopping or not self._is_started:
            return
        loop = asyncio.get_running_loop()
        while len(self._cleaners) < thread_count:
            number = len(self._cleaners)
            self._cleaners.append(loop.create_task(self._work(number), name=f"log-cleaner-{number}"))
        self._wake_event.set()

    def search_now(self) -> None:
        """End the back-off of the cleaners, because a changed config may make a log dirty."""
        self._wake_event.set()

    async def close(self) -> None:
        """Abort the rounds in progress."""
        self._is_stopping = True
        self._wake_event.set()
        await asyncio.gather(*self._cleaners, return_exceptions=True)

    async def pause(self, log: PartitionLog) -> None:
        """Abort the round of `log` that is in progress, and start none until `resume`."""
        self._paused.add(log)
        while log in self._in_progress:
            self._round_ended.clear()
            await self._round_ended.wait()

    def resume(self, log: PartitionLog) -> None:
        """Compact `log` again when it is dirty."""
        self._paused.discard(log)

    @property
    def dead_count(self) -> int:
        """The number of cleaners that have ended without being stopped."""
        return 0 if self._is_stopping else sum(task.done() for task in self._cleaners)

    @property
    def idle_ms(self) -> int:
        """The time since the last search for dirty logs."""
        return self._clock.monotonic_ms() - self._last_run_ms

    # -- the loop of a cleaner

    async def _work(self, number: int) -> None:
        slot = WorkerSlot(self._start_worker, self._thread, self._clock)
        try:
            while not self._is_stopping:
                try:
                    was_cleaned = await self._clean_dirtiest(number, slot)
                except Exception:
                    logger.exception("Log cleaner %d failed; it continues with the next log", number)
                    was_cleaned = False
                if not was_cleaned and not self._is_stopping:
                    await self._rest(slot)
        finally:
            await slot.stop()

    async def _rest(self, slot: WorkerSlot) -> None:
        """Wait for log.cleaner.backoff.ms; meanwhile, stop the worker when it has been idle for long."""
        end_ms = self._clock.monotonic_ms() + self._config().log_cleaner_backoff_ms
        while (remaining_ms := end_ms - self._clock.monotonic_ms()) > 0 and not self._is_stopping:
            if await self._was_woken(min(remaining_ms, slot.idle_ms_left)):
                return
            await slot.stop_if_idle()

    async def _was_woken(self, delay_ms: int) -> bool:
        """Wait for at most `delay_ms`; return whether there is a reason to search at once."""
        self._wake_event.clear()
        try:
            await asyncio.wait_for(self._wake_event.wait(), delay_ms / 1000)
        except TimeoutError:
            return False
        return True

    async def _clean_dirtiest(self, number: int, slot: WorkerSlot) -> bool:
        """Clean the dirtiest log; return whether one was cleaned successfully."""
        config = self._config()
        is_allowed = config.log_cleaner_enable and number < config.log_cleaner_threads and slot.is_available
        dirtiest = self._find_dirtiest() if is_allowed else None
        if dirtiest is None:
            if is_allowed:
                # Not during the back-off of a dead worker: the log that has killed it would be the next.
                self._postponed.clear()
            return False
        log = dirtiest.log
        self._in_progress.add(log)
        try:
            worker = await slot.acquire()
            work = CleaningRound(
                log,
                _limits(config),
                worker,
                self._thread,
                self._clock,
                is_in_use=partial(self._is_in_use, log),
                is_wanted=partial(self._is_wanted, log),
            )
            self.stats[number] = await work.run(dirtiest.cleanable)
            slot.on_round_completed()
        except CleaningAborted:
            await slot.stop()
            logger.info("%s: compaction was aborted", log.topic_partition)
            return False
        except (WorkerDied, WorkerOutOfMemory) as error:
            await slot.on_died()
            self._on_worker_lost(log, error, slot.backoff_ms)
            return False
        except Exception as error:
            await slot.stop()  # its state is unknown
            if self._is_in_use(log):
                self._on_failed(log, error)
            return False
        finally:
            self._in_progress.discard(log)
            self._round_ended.set()
        await self._write_checkpoints()
        return True

    def _is_wanted(self, log: PartitionLog) -> bool:
        return not self._is_stopping and log not in self._paused and self._is_in_use(log)

    def _is_in_use(self, log: PartitionLog) -> bool:
        return self._logs.get(log.topic_partition) is log

    def _find_dirtiest(self) -> _Dirtiest | None:
        """Return the log with the highest dirty ratio that must be compacted now; None if there is none."""
        now_ms = self._clock.wall_ms()
        self._last_run_ms = self._clock.monotonic_ms()
        self.max_dirty_ratio, self.max_delay_ms = 0.0, 0
        dirtiest: _Dirtiest | None = None
        logs = list(self._logs.logs)
        self.uncleanable.intersection_update(logs)
        for log in logs:
            if len(log.segments) < 2 or log.failure is not None or not is_cleaned(log):
                continue
            if log in self._in_progress or log in self.uncleanable or log in self._postponed:
                continue
            if log in self._paused:
                continue
            try:
                cleanable = find_cleanable(log, now_ms)
            except KafkaError as error:
                self._on_failed(log, error)
                continue
            self.max_dirty_ratio = max(self.max_dirty_ratio, cleanable.ratio)
            self.max_delay_ms = max(self.max_delay_ms, cleanable.delay_ms)
            if is_due(log, cleanable) and (dirtiest is None or cleanable.ratio > dirtiest.cleanable.ratio):
                dirtiest = _Dirtiest(log, cleanable)
        return dirtiest

    # -- outcomes

    def _on_worker_lost(
        self, log: PartitionLog, error: WorkerDied | WorkerOutOfMemory, backoff_ms: int
    ) -> None:
        """Postpone a log whose worker has died or was stopped for lack of memory: it may be the cause."""
        self._postponed.add(log)
        event = "has died" if isinstance(error, WorkerDied) else "had too little memory"
        logger.warning(
            "Cannot compact %s now: the worker of the log cleaner %s: %s; the next one starts in %d ms",
            log.topic_partition,
            event,
            error,
            backoff_ms,
        )

    def _on_failed(self, log: PartitionLog, error: Exception) -> None:
        """Handle a failed compaction; the table at the head of the file lists the effects."""
        cause = error.__cause__ if isinstance(error, KafkaError) else error
        if isinstance(error, StorageFailure):
            self._logs.directories.disk_failed(log, error)
        elif _is_temporary(cause):
            # A smaller log may fit on the disk and free space there.
            self._postponed.add(log)
            logger.warning(
                "Cannot compact %s now: %s; it is retried later",
                log.topic_partition,
                str(cause) or "too little memory",
            )
        elif isinstance(cause, OSError):
            self._logs.directories.disk_failed(log, StorageFailure(log.directory, "compaction", str(cause)))
        else:
            self.uncleanable.add(log)
            logger.error(
                "Cannot compact %s: %s; it is not compacted until the next start",
                log.topic_partition,
                error,
                exc_info=None if _is_damage(error) else error,
            )

    async def _write_checkpoints(self) -> None:
        for work in self._logs.maintenance.planned_checkpoints(CheckpointKind.FIRST_DIRTY_OFFSET):
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, work.run)
            except (OSError, StorageFailure) as error:
                self._logs.maintenance.work_failed(work, error)


def _limits(config: BrokerConfig) -> CleaningLimits:
    threads = config.log_cleaner_threads
    return CleaningLimits(
        map_bytes=config.log_cleaner_dedupe_buffer_size // threads,
        load_factor=config.log_cleaner_io_buffer_load_factor,
        # One half is used for reading, the other for writing.
        io_buffer_bytes=max(_IO_BUFFER_BYTES_MIN, config.log_cleaner_io_buffer_size // threads // 2),
        bytes_per_second=max(1.0, config.log_cleaner_io_max_bytes_per_second / threads),
    )


def _is_temporary(error: BaseException | None) -> bool:
    """Return whether the same round may succeed later."""
    return isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _TEMPORARY_ERRORS)


def _is_damage(error: Exception) -> bool:
    """Return whether the files are damaged; a traceback is then of no use."""
    is_refused = isinstance(error, KafkaError) and error.code is ErrorCode.CORRUPT_MESSAGE
    return is_refused or isinstance(error, CorruptFile | DecodeError)
