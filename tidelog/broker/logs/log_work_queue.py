"""Creates the logs of new partitions and retires those of deleted partitions, in one thread.

Disk operations therefore do not block the event loop. The order of the requests is kept, because a new topic
may have the name of a deleted one. The thread processes `BATCH_SIZE` logs at a time; the loop receives the
outcomes of each batch, and releases the objects of retired logs. An operation that finds no free descriptor
is repeated later, and so are all operations after it.

Planning a log takes a few microseconds on the event loop, and one request can create 10,000 of them. An
iterator in the queue therefore plans its logs batch by batch, each batch just before it runs.

Bounds: one creation or retirement for each partition that the metadata assigns to this node.
I/O: one task while there is work, and the thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
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
"""The pause until an operation is repeated that found no free descriptor."""
BATCH_SIZE: Final = 32
"""A few milliseconds of disk operations: the first partitions can be used before the last are created."""


class LogWorkQueue:
    """The queue of logs to create or retire.

    `on_done` receives every outcome, batch by batch. Close the queue before the logs are closed.
    """

    def __init__(self, thread: Executor, on_done: Callable[[Sequence[Outcome]], None]) -> None:
        self._thread = thread
        self._on_done = on_done
        self._planned: deque[Work | Iterator[Work] | asyncio.Future[None]] = deque()
        """What remains to be done, in order; a future is completed when it is the first."""
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._lacks_descriptors = False
        """Whether there was no descriptor for the next operation."""

    def submit(self, planned: Sequence[Work]) -> None:
        """Add logs to create or retire; has no effect after `close`."""
        if self._closing.is_set():
            # The next start treats the log of a partition that was deleted now as a stray.
            return
        self._planned += planned
        if planned:
            self._start()

    def submit_plans(self, plans: Iterator[Work]) -> None:
        """Add the logs that `plans` will return: it is advanced when its turn comes, on the event loop."""
        if not self._closing.is_set():
            self._planned.append(plans)
            self._start()

    def _start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="log-work")

    def call_soon(self, callback: Callable[[], None]) -> None:
        """Call `callback` in a later turn of the event loop, unless this is closed by then."""

        def call_unless_closed() -> None:
            if not self._closing.is_set():
                callback()

        asyncio.get_running_loop().call_soon(call_unless_closed)

    async def wait_until_done(self) -> None:
        """Wait until everything submitted so far has completed or failed, or lacks descriptors."""
        if self._task is not None and not self._closing.is_set() and not self._lacks_descriptors:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._planned.append(reached)
            await reached

    async def close(self) -> None:
        """Complete the current batch and all retirements; create no other logs."""
        self._closing.set()
        self._drop_creations()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def _drop_creations(self) -> None:
        self._end_waits()
        self._planned = deque(each for each in self._planned if isinstance(each, Retirement))

    def _end_waits(self) -> None:
        """Let `wait_until_done` return, before everything is done."""
        waits = [each for each in self._planned if isinstance(each, asyncio.Future)]
        for wait in waits:
            self._planned.remove(wait)
            _complete(wait)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while batch := self._next_batch():
                outcomes, shortage = await loop.run_in_executor(self._thread, _run_batch, batch)
                if shortage is not None and self._closing.is_set():
                    outcomes.append((batch[len(outcomes)], shortage))
                self._planned.extendleft(reversed(batch[len(outcomes) :]))
                if self._closing.is_set():
                    self._drop_creations()
                lacked_descriptors, self._lacks_descriptors = self._lacks_descriptors, shortage is not None
                self._report(outcomes)
                if shortage is not None:
                    self._end_waits()
                    level = logging.DEBUG if lacked_descriptors else logging.WARNING
                    logger.log(
                        level,
                        "At least %d partitions wait for free descriptors: %s; retrying in %g s",
                        len(self._planned),
                        shortage,
                        RETRY_S,
                    )
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._closing.wait(), RETRY_S)
        finally:
            self._task = None
            self._end_waits()

    def _next_batch(self) -> list[Work]:
        """Return the next logs to create or retire; none if all are done."""
        batch: list[Work] = []
        while self._planned and sum(map(_log_count, batch)) < BATCH_SIZE:
            first = self._planned[0]
            if isinstance(first, asyncio.Future):
                if batch:
                    break
                _complete(first)
            elif isinstance(first, LogCreation | Retirement):
                batch.append(first)
            elif (work := _next_of(first)) is not None:
                batch.append(work)
                continue
            self._planned.popleft()
        return batch

    def _report(self, outcomes: Sequence[Outcome]) -> None:
        try:
            self._on_done(outcomes)
        except Exception:
            logger.exception("Cannot apply the outcomes of %d created or retired logs", len(outcomes))


def _next_of(plans: Iterator[Work]) -> Work | None:
    """Return the next log that `plans` plans; None if there is none, or if planning fails."""
    try:
        return next(plans, None)
    except Exception:
        logger.exception("Cannot plan the creation of logs")
        return None


def _log_count(work: Work) -> int:
    return max(1, len(work.renames)) if isinstance(work, Retirement) else 1


def _complete(wait: asyncio.Future[None]) -> None:
    if not wait.done():
        wait.set_result(None)


def _run_batch(planned: Sequence[Work]) -> tuple[list[Outcome], Exception | None]:
    """Run `planned` up to the first operation that finds no descriptor.

    Return the outcomes, and the error of the operation without a descriptor, None if there is none.
    """
    outcomes: list[Outcome] = []
    for work in planned:
        try:
            outcomes.append((work, work.run()))
        except Exception as error:
            if is_descriptor_shortage(error):
                return outcomes, error
            outcomes.append((work, error))
    return outcomes, None
