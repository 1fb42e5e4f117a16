"""DeleteRecords for many partitions runs in slices, also while it waits for followers."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.yields import STEPS_PER_SLICE, IterationCounter, counted_slices
from tests.support.messages.request_contexts import request_context
from tests.support.replicas.replica_manager import NODE, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.waiting import eventually
from tidelog.broker.api.handlers.delete_records import DeleteRecordsHandler
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

MANY = 400
FOLLOWER = 2


class Leader:
    """The leader of MANY partitions, whose follower has not fetched yet."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.replicas = Replicas()
        self.timers = Timers(self.clock.monotonic_ms)
        fetches, produces, self.waiting = (Purgatory(name, self.timers) for name in ("f", "p", "d"))
        self.replicas.watch(fetches, produces, self.waiting)
        self.replicas.register(NODE, FOLLOWER)
        self.replicas.create("wide", MANY, isr=(NODE, FOLLOWER))
        self.slices = counted_slices()
        self.handler = DeleteRecordsHandler(
            self.replicas.manager, self.waiting, self.slices, authorizer=ALLOW_EVERYTHING
        )

    def delete(self) -> asyncio.Task[DeleteRecordsResponse]:
        partitions = tuple(DeleteRecordsPartition(partition_index=index, offset=-1) for index in range(MANY))
        request = DeleteRecordsRequest(
            topics=(DeleteRecordsTopic(name="wide", partitions=partitions),), timeout_ms=1_000
        )

        async def complete() -> DeleteRecordsResponse:
            outcome = await self.slices.complete(self.handler.handle(request_context(2), request))
            return await cast(asyncio.Future[DeleteRecordsResponse], outcome)

        return asyncio.get_running_loop().create_task(complete())

    def fetch(self, index: int) -> None:
        """Play a fetch of the follower from the log start."""
        partition = self.replicas.manager.partition(TopicPartition("wide", index))
        partition.record_follower_fetch(FOLLOWER, 0, 0, 100 + FOLLOWER)


@pytest.fixture
def leader() -> Leader:
    return Leader()


def outcomes(response: DeleteRecordsResponse) -> set[tuple[int, int]]:
    return {(each.error_code, each.low_watermark) for each in response.topics[0].partitions}


async def test_delete_records_waits_for_the_followers_of_all_partitions(leader: Leader) -> None:
    turns = IterationCounter()
    task = leader.delete()
    await eventually(lambda: leader.waiting.watched_count == MANY and leader.slices.pending_count == 0)
    turns.stop()
    assert turns.count >= 3 * MANY // STEPS_PER_SLICE // 2
    for index in range(MANY - 1):
        leader.fetch(index)
    assert not task.done()
    leader.fetch(MANY - 1)
    assert outcomes(await task) == {(ErrorCode.NONE, 0)}
    assert leader.waiting.watched_count == 0


async def test_a_fetch_of_a_follower_between_two_slices_counts(leader: Leader) -> None:
    task = leader.delete()
    for index in range(MANY):
        await asyncio.sleep(0)
        leader.fetch(index)
    assert outcomes(await task) == {(ErrorCode.NONE, 0)}


async def test_partitions_without_result_after_the_timeout_get_request_timed_out(leader: Leader) -> None:
    task = leader.delete()
    await eventually(lambda: leader.waiting.watched_count > 0)
    leader.fetch(0)
    await eventually(lambda: leader.slices.pending_count == 0)
    leader.clock.now_ms += 1_001
    leader.timers.advance()
    assert outcomes(await task) == {(ErrorCode.NONE, 0), (ErrorCode.REQUEST_TIMED_OUT, -1)}


async def test_a_disconnected_client_leaves_no_operation(leader: Leader) -> None:
    task = leader.delete()
    await eventually(lambda: leader.waiting.watched_count > 0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await eventually(lambda: leader.slices.pending_count == 0)
    assert (leader.waiting.watched_count, leader.waiting.delayed_count) == (0, 0)
