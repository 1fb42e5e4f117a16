"""Making the logs of new partitions, and putting deleted ones aside, in a thread of its own.

So the disk does not hold the loop. All is done in the order it was asked for, because a new topic may have
the name of a deleted one, `AT_ONCE` at a time; the outcomes are told on the loop. What finds no descriptor is
done later, and what comes behind it too.

Bounds: what the metadata places here. I/O: one task while there is something to make, and the thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from typing import Final, TypeAlias

from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.directories.log_directory import Retirement
from tidelog.storage.disk.errors import is_descriptor_shortage
from tidelog.storage.log.partition_log import PartitionLog

logger = logging.getLogger(__name__)

Work: TypeAlias = LogCreation | Retirement
Outcome: TypeAlias = tuple[Work, PartitionLog | Exception | None]

RETRY_S: Final = 0.5
# A few milliseconds of disk: who waits for the first does not wait for the last.
AT_ONCE: Final = 32


class LogMaker:
    """`on_made` hears of every outcome, in pieces; `close` before the logs are closed."""

    def __init__(self, thread: Executor, on_made: Callable[[Sequence[Outcome]], None]) -> None:
        self._thread = thread
        self._on_made = on_made
        self._planned: deque[Work] = deque()
        self._asked = 0
        self._made = 0
        self._progress = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._is_waiting = False
        """Whether there was no descriptor for what comes next."""

    def make(self, planned: Sequence[Work]) -> None:
        """Have logs made, or put aside; without effect once closed."""
        if self._closing.is_set():
            # What was deleted in the last moment is a stray for the next start.
            return
        self._planned += planned
        self._asked += len(planned)
        if planned and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work(), name="make-logs")

    async def settled(self) -> None:
        """Wait until all that was asked for so far is done or has failed, or cannot be done for now."""
        asked = self._asked
        while self._made < asked and not self._closing.is_set() and not self._is_waiting:
            self._progress.clear()
            await self._progress.wait()

    async def close(self) -> None:
        """Make nothing more, once what is being made is done; all that was deleted is put aside."""
        self._closing.set()
        self._forget_creations()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        self._progress.set()

    def _forget_creations(self) -> None:
        self._planned = deque(each for each in self._planned if isinstance(each, Retirement))

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._planned:
                piece = [self._planned.popleft() for _ in range(min(AT_ONCE, len(self._planned)))]
                outcomes, shortage = await loop.run_in_executor(self._thread, _make, piece)
                if shortage is not None and self._closing.is_set():
                    outcomes.append((piece[len(outcomes)], shortage))
                self._planned.extendleft(reversed(piece[len(outcomes) :]))
                if self._closing.is_set():
                    self._forget_creations()
                was_waiting, self._is_waiting = self._is_waiting, shortage is not None
                self._report(outcomes)
                if shortage is not None:
                    level = logging.DEBUG if was_waiting else logging.WARNING
                    logger.log(level, "%d partitions wait for descriptors: %s", len(self._planned), shortage)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._closing.wait(), RETRY_S)
        finally:
            self._task = None

    def _report(self, outcomes: Sequence[Outcome]) -> None:
        try:
            self._on_made(outcomes)
        except Exception:
            logger.exception("%d new or deleted partitions could not be dealt with", len(outcomes))
        self._made += len(outcomes)
        self._progress.set()


def _make(planned: Sequence[Work]) -> tuple[list[Outcome], Exception | None]:
    """Do what is planned, up to what finds no descriptor; return the outcomes, and that error."""
    outcomes: list[Outcome] = []
    for work in planned:
        try:
            outcomes.append((work, work.run()))
        except Exception as error:
            if is_descriptor_shortage(error):
                return outcomes, error
            outcomes.append((work, error))
    return outcomes, None
