"""One round of compaction of one log.

The event loop plans the round and replaces segments; a worker process reads and writes them. Meanwhile the
log may be truncated, deleted or set offline, and retention may delete segments. The worker is then killed,
and its files are deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from tidelog.base.clock import Clock
from tidelog.base.dataclass import dataclass
from tidelog.broker.logs.cleaning.messages import CleaningLimits
from tidelog.broker.logs.cleaning.worker_process import CleaningWorker, WrittenBytes
from tidelog.storage.compaction.cleanable import Cleanable
from tidelog.storage.compaction.plan import CleaningPlan, is_current, open_cleaned, plan_cleaning
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.disk.log_files import CLEANED_SUFFIX
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_files import remove_segment_files

logger = logging.getLogger(__name__)

T = TypeVar("T")

_CHECK_S: Final = 0.05
"""How often a round checks that it is still needed."""


class CleaningAborted(Exception):
    """The log must not be compacted any more, or the node stops."""


@dataclass(frozen=True, slots=True)
class CleaningStats:
    """The statistics of one round."""

    elapsed_ms: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    map_utilization: float = 0.0
    """From 0 to 1."""


class CleaningRound:
    """One round, to be run once.

    `is_in_use` returns whether the log is a log of this node, `is_wanted` whether it may also be compacted.
    Errors of `run`: CleaningAborted; OSError and KafkaError of the disk; CorruptFile, DecodeError;
    WorkerDied, WorkerError. The worker must be stopped after an error.
    """

    def __init__(
        self,
        log: PartitionLog,
        limits: CleaningLimits,
        worker: CleaningWorker,
        thread: Executor,
        clock: Clock,
        is_in_use: Callable[[], bool],
        is_wanted: Callable[[], bool],
    ) -> None:
        self._log = log
        self._limits = limits
        self._worker = worker
        self._thread = thread
        self._clock = clock
        self._is_in_use = is_in_use
        self._is_wanted = is_wanted

    async def run(self, cleanable: Cleanable) -> CleaningStats:
        """Compact the cleanable part of the log, as far as its keys fit into the offset map."""
        log, worker, began_ms = self._log, self._worker, self._clock.monotonic_ms()
        plan = await self._plan(cleanable)
        task, limits = plan.task, self._limits
        end_offset, utilization = await self._in_worker(
            lambda: worker.fill(task, limits), lambda: self._is_valid(plan, plan.segments)
        )
        written = await self._replace_all(plan, plan.groups(end_offset))
        await self._in_thread(worker.end_round)
        await self._in_thread(lambda: log.fs.fsync_dir(log.directory))
        if not self._is_valid(plan, []):
            raise CleaningAborted
        log.set_first_dirty_offset(end_offset)
        elapsed_ms = self._clock.monotonic_ms() - began_ms
        logger.info(
            "%s: compacted up to offset %d, %d of %d bytes remain, %d ms",
            log.topic_partition,
            end_offset,
            written.bytes_written,
            written.bytes_read,
            elapsed_ms,
        )
        return CleaningStats(elapsed_ms, written.bytes_read, written.bytes_written, utilization)

    async def _plan(self, cleanable: Cleanable) -> CleaningPlan:
        """Plan the round in steps: a log may have 100,000 producers."""
        steps = plan_cleaning(self._log, cleanable, self._clock.wall_ms(), self._limits.io_buffer_bytes)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                plan: CleaningPlan = ended.value
                return plan
            await asyncio.sleep(0)

    def _is_valid(self, plan: CleaningPlan, segments: Sequence[LogSegment]) -> bool:
        """Return whether the plan may be continued: retention may have deleted some of these segments."""
        if not self._is_wanted() or not is_current(self._log, plan):
            return False
        return all(self._log.segments.floor(segment.base_offset) is segment for segment in segments)

    async def _replace_all(
        self, plan: CleaningPlan, groups: Sequence[Sequence[SourceSegment]]
    ) -> WrittenBytes:
        """Let the worker clean one group after the other, and replace their segments.

        While the worker writes the files of a group, those of the group before become durable, and the
        segments of the second group before are replaced.
        """
        worker, written, first = self._worker, WrittenBytes(0, 0), 0
        pending: deque[Sequence[SourceSegment]] = deque(maxlen=3)

        def is_valid() -> bool:
            return self._is_valid(plan, plan.segments_of(pending[-1]))

        async def execute(request: Callable[[], T], unsynced_count: int) -> T:
            """Execute a request; meanwhile replace the segments of a group before the unsynced ones."""
            running = self._in_worker(request, is_valid)
            return await (_both(running, replace()) if len(pending) > unsynced_count else running)

        async def replace() -> None:
            await self._replace(plan, pending[0])
            pending.popleft()

        try:
            for group in groups:
                pending.append(group)
                written = await execute(partial(worker.clean, first, first + len(group)), 2)
                first += len(group)
            await execute(worker.sync, 1)
            await replace()
        except BaseException:
            # The directory of a deleted partition may belong to a new one.
            if self._is_in_use():
                await self._in_thread(lambda: self._remove_cleaned(pending))
            raise
        return written

    async def _replace(self, plan: CleaningPlan, group: Sequence[SourceSegment]) -> None:
        """Replace the segments of a group by the cleaned one, which is durable.

        The fsyncs run in a thread, because they take long.
        """
        log, segments = self._log, plan.segments_of(group)

        def is_valid() -> bool:
            return self._is_valid(plan, segments)

        cleaned = await self._in_thread(lambda: open_cleaned(log, group))
        if not is_valid():
            raise CleaningAborted
        failures, replacement = log.failures, log.replacement
        replacement.begin(cleaned, segments)
        try:
            with failures.storage_errors("compaction", is_final=True):
                await self._in_thread(replacement.sync)
            if not is_valid() or not replacement.commit(self._clock.wall_ms()):
                raise CleaningAborted
            with failures.storage_errors("compaction", is_final=True):
                await self._in_thread(replacement.sync)
            replacement.finish()
        finally:
            replacement.settle()

    def _remove_cleaned(self, groups: Iterable[Sequence[SourceSegment]]) -> None:
        for group in groups:
            with suppress(OSError):
                remove_segment_files(self._log.fs, self._log.directory, group[0].base_offset, CLEANED_SUFFIX)

    async def _in_worker(self, work: Callable[[], T], is_valid: Callable[[], bool]) -> T:
        """Return the result of a request to the worker, which is killed if the plan becomes invalid.

        Errors: CleaningAborted also if the plan is invalid when the request fails.
        """
        running = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            while not (await asyncio.wait([running], timeout=_CHECK_S))[0]:
                if not is_valid():
                    break
        finally:
            if not running.done():
                self._worker.kill()
                await asyncio.wait([running])
        if is_valid():
            return running.result()
        raise CleaningAborted from running.exception()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which runs in a thread; a cancelled task also waits for its end."""
        running = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise


async def _both(first: Awaitable[T], second: Awaitable[None]) -> T:
    """Return the result of the first. Errors: those of either, after both have ended."""
    result, nothing = await asyncio.gather(first, second, return_exceptions=True)
    if isinstance(nothing, BaseException):
        raise nothing
    if isinstance(result, BaseException):
        raise result
    return result
