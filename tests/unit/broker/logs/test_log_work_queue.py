"""Logs are created in a thread, in order and in steps, while the event loop runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from tests.support.waiting import eventually
from tidelog.broker.logs.log_work_queue import BATCH_SIZE, LogWorkQueue, Outcome
from tidelog.protocol.ids import TopicPartition
from tidelog.storage.directories.directory_work import LogCreation
from tidelog.storage.directories.log_directory import LogDirectory, Rename, Retirement
from tidelog.storage.log.partition_log import PartitionLog


class OutcomeRecorder:
    """Records the outcomes that the queue reports, and the number of outcomes in each report."""

    def __init__(self) -> None:
        self.outcomes: list[Outcome] = []
        self.pieces: list[int] = []
        self.thread = threading.get_ident()

    def __call__(self, outcomes: Sequence[Outcome]) -> None:
        assert threading.get_ident() == self.thread
        self.outcomes += outcomes
        self.pieces.append(len(outcomes))

    @property
    def numbers(self) -> list[int]:
        """The partition numbers of the created logs; -1 for each retirement of logs."""
        return [
            work.topic_partition.partition if isinstance(work, LogCreation) else -1
            for work, _ in self.outcomes
        ]


class Work:
    """Log creations by partition number: all wait for `gate`, those in `failing` raise an error."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.begun = 0
        self.failing: set[int] = set()

    def creation(self, number: int) -> LogCreation:
        def run() -> PartitionLog:
            self.begun += 1
            self.gate.wait()
            if number in self.failing:
                raise OSError(f"disk of {number}")
            return cast(PartitionLog, number)

        return LogCreation(cast(LogDirectory, None), TopicPartition("t", number), None, run)

    def retirement(self, log_count: int = 1) -> Retirement:
        renames = [
            Rename(TopicPartition("t", number), f"/t-{number}-delete", 0) for number in range(log_count)
        ]
        return Retirement(cast(LogDirectory, None), renames, lambda: None)

    def creations(self, *numbers: int) -> list[LogCreation]:
        return [self.creation(number) for number in numbers]


@pytest.fixture
def thread() -> Iterator[ThreadPoolExecutor]:
    executor = ThreadPoolExecutor(1)
    yield executor
    executor.shutdown()


async def test_logs_are_created_in_order_and_in_steps_while_the_loop_continues(
    thread: ThreadPoolExecutor,
) -> None:
    recorder, work = OutcomeRecorder(), Work()
    queue = LogWorkQueue(thread, recorder)
    queue.submit(work.creations(*range(BATCH_SIZE + 5)))
    await eventually(lambda: work.begun == 1)
    queue.submit(work.creations(100, 101))
    assert recorder.outcomes == []
    work.gate.set()
    await queue.wait_until_done()
    assert recorder.numbers == [*range(BATCH_SIZE + 5), 100, 101]
    assert recorder.pieces == [BATCH_SIZE, 7]
    await queue.close()


async def test_retirements_of_many_logs_are_completed_a_few_at_a_time(thread: ThreadPoolExecutor) -> None:
    """The objects of 3,200 retired logs were released at once, which blocked the event loop for 40 ms."""
    recorder, work = OutcomeRecorder(), Work()
    queue = LogWorkQueue(thread, recorder)
    queue.submit([work.retirement(BATCH_SIZE - 1) for _ in range(5)])
    await queue.wait_until_done()
    assert recorder.pieces == [2, 2, 1]
    await queue.close()


async def test_a_wait_does_not_include_later_submissions(thread: ThreadPoolExecutor) -> None:
    recorder, work = OutcomeRecorder(), Work()
    queue = LogWorkQueue(thread, recorder)
    await queue.wait_until_done()
    queue.submit(work.creations(0))
    first = asyncio.create_task(queue.wait_until_done())
    await eventually(lambda: work.begun == 1)
    later = Work()
    queue.submit(later.creations(1))
    work.gate.set()
    await first
    assert recorder.numbers == [0]
    later.gate.set()
    await queue.wait_until_done()
    assert recorder.numbers == [0, 1]
    await queue.close()


async def test_a_log_that_cannot_be_created_is_reported_and_the_others_are_created(
    thread: ThreadPoolExecutor,
) -> None:
    recorder, work = OutcomeRecorder(), Work()
    work.failing = {1}
    work.gate.set()
    queue = LogWorkQueue(thread, recorder)
    queue.submit(work.creations(0, 1, 2))
    await queue.wait_until_done()
    assert [str(outcome) for _, outcome in recorder.outcomes] == ["0", "disk of 1", "2"]
    await queue.close()


async def test_a_failing_listener_does_not_end_the_creation(thread: ThreadPoolExecutor) -> None:
    work, batch_sizes = Work(), []
    work.gate.set()

    def on_done(outcomes: Sequence[Outcome]) -> None:
        batch_sizes.append(len(outcomes))
        raise ValueError("a bug")

    queue = LogWorkQueue(thread, on_done)
    queue.submit(work.creations(0))
    await queue.wait_until_done()
    queue.submit(work.creations(1))
    await queue.wait_until_done()
    assert batch_sizes == [1, 1]
    await queue.close()


async def test_close_waits_for_the_current_creation_and_starts_no_other(thread: ThreadPoolExecutor) -> None:
    recorder, work = OutcomeRecorder(), Work()
    queue = LogWorkQueue(thread, recorder)
    queue.submit(work.creations(*range(BATCH_SIZE)))
    await eventually(lambda: work.begun == 1)
    queue.submit([*work.creations(100), work.retirement(), *work.creations(101)])
    waiting = asyncio.create_task(queue.wait_until_done())
    closing = asyncio.create_task(queue.close())
    await asyncio.sleep(0)
    assert not closing.done()
    work.gate.set()
    await closing
    await waiting
    queue.submit(work.creations(200))
    await queue.wait_until_done()
    assert recorder.numbers == [*range(BATCH_SIZE), -1]


async def test_logs_are_planned_batch_by_batch_while_earlier_ones_are_created(
    thread: ThreadPoolExecutor,
) -> None:
    recorder, work, planned = OutcomeRecorder(), Work(), []

    def plans() -> Iterator[LogCreation]:
        for number in range(3 * BATCH_SIZE):
            planned.append(number)
            yield work.creation(number)

    queue = LogWorkQueue(thread, recorder)
    queue.submit_plans(plans())
    queue.submit(work.creations(1_000))
    assert planned == []
    await eventually(lambda: work.begun == 1)
    assert len(planned) == BATCH_SIZE
    work.gate.set()
    await queue.wait_until_done()
    assert recorder.numbers == [*range(3 * BATCH_SIZE), 1_000]
    await queue.close()


async def test_an_error_in_a_plan_does_not_prevent_other_logs(thread: ThreadPoolExecutor) -> None:
    recorder, work = OutcomeRecorder(), Work()
    work.gate.set()

    def plans() -> Iterator[LogCreation]:
        yield work.creation(0)
        raise ValueError("a bug")

    queue = LogWorkQueue(thread, recorder)
    queue.submit_plans(plans())
    queue.submit(work.creations(1))
    await queue.wait_until_done()
    assert recorder.numbers == [0, 1]
    await queue.close()


async def test_close_plans_no_further_logs(thread: ThreadPoolExecutor) -> None:
    recorder, work = OutcomeRecorder(), Work()
    queue = LogWorkQueue(thread, recorder)
    queue.submit_plans(work.creation(number) for number in range(2 * BATCH_SIZE))
    await eventually(lambda: work.begun == 1)
    waiting = asyncio.create_task(queue.wait_until_done())
    await asyncio.sleep(0)
    closing = asyncio.create_task(queue.close())
    await waiting
    work.gate.set()
    await closing
    assert recorder.numbers == [*range(BATCH_SIZE)]
