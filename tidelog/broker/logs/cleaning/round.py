"""One round of compaction of one log.

The event loop plans the round and replaces segments; a thread reads and writes them. Between these steps the
log may be truncated, deleted or set offline. The new files are then deleted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.logs.cleaning.pace import CleanerPace, CleaningAborted
from tidelog.storage.compaction.cleanable import Cleanable
from tidelog.storage.compaction.cleaning import GroupCleaner, fill_offset_map, groups_to_clean
from tidelog.storage.compaction.offset_map import OffsetMap
from tidelog.storage.compaction.plan import CleaningPlan, is_current, last_records, plan_cleaning
from tidelog.storage.compaction.segment_groups import SourceSegment
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CleaningStats:
    """The statistics of one round."""

    elapsed_ms: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    map_utilization: float = 0.0
    """From 0 to 1."""


@dataclass(frozen=True, slots=True)
class CleaningLimits:
    """The limits of one cleaner: its shares of the memory and of the rate."""

    map_bytes: int
    load_factor: float
    io_buffer_bytes: int
    bytes_per_second: float


class CleaningRound:
    """One round, to be run once; `in_use` returns whether the log is still a log of this node.

    Errors of `run`: CleaningAborted; OSError and KafkaError of the disk; CorruptLog, DecodeError.
    """

    def __init__(
        self,
        log: PartitionLog,
        limits: CleaningLimits,
        thread: Executor,
        clock: Clock,
        stopping: Event,
        in_use: Callable[[], bool],
    ) -> None:
        self._log = log
        self._limits = limits
        self._thread = thread
        self._clock = clock
        self._stopping = stopping
        self._in_use = in_use

    async def run(self, cleanable: Cleanable) -> CleaningStats:
        """Compact the cleanable part of the log, as far as its keys fit into the offset map."""
        log, began_ms = self._log, self._clock.monotonic_ms()
        plan = plan_cleaning(log, cleanable, self._clock.wall_ms(), self._limits.io_buffer_bytes)

        def is_needed() -> bool:
            return self._in_use() and is_current(log, plan)

        pace = CleanerPace(self._clock, self._stopping, is_needed, self._limits.bytes_per_second)
        offsets = OffsetMap.within(self._limits.map_bytes, self._limits.load_factor)
        end_offset = await self._in_thread(lambda: fill_offset_map(plan, offsets, pace))
        cleaner = GroupCleaner(plan, offsets, pace)
        for group in groups_to_clean(plan, end_offset):
            await self._replace(plan, cleaner, group, is_needed)
        await self._in_thread(lambda: log.fs.fsync_dir(log.directory))
        if not is_needed():
            raise CleaningAborted
        log.set_first_dirty_offset(end_offset)
        elapsed_ms = self._clock.monotonic_ms() - began_ms
        logger.info(
            "%s: compacted up to offset %d, %d of %d bytes remain, %d ms",
            log.topic_partition,
            end_offset,
            cleaner.bytes_written,
            cleaner.bytes_read,
            elapsed_ms,
        )
        return CleaningStats(elapsed_ms, cleaner.bytes_read, cleaner.bytes_written, offsets.utilization)

    async def _replace(
        self,
        plan: CleaningPlan,
        cleaner: GroupCleaner,
        group: list[SourceSegment],
        is_needed: Callable[[], bool],
    ) -> None:
        """Clean one group of segments in a thread, and replace them by the result."""
        log, records = self._log, last_records(self._log)
        cleaned = await self._in_thread(lambda: cleaner.clean(group, records))
        segments = [source.segment for source in group]
        # Retention may have deleted some of these segments.
        if not is_needed() or any(log.segments.floor(one.base_offset) is not one for one in segments):
            log.replacement.discard(cleaned)
            raise CleaningAborted
        log.replacement.replace(cleaned, segments, self._clock.wall_ms())

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Return the result of `work`, which runs in a thread.

        A cancelled task also waits for its end: only this round knows its files.
        """
        running = asyncio.get_running_loop().run_in_executor(self._thread, work)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self._stopping.set()
            await asyncio.wait([running])
            raise
