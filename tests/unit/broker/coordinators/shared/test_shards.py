"""Concurrent loading of the partitions of an internal topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.unhandled import UnhandledErrors
from tests.support.waiting import eventually
from tidelog.broker.coordinators.shared.coordinator import RecordFormat
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Writes
from tidelog.broker.coordinators.shared.shard import ShardPorts, ShardState
from tidelog.broker.coordinators.shared.shards import LOADS_AT_ONCE_MAX, Shards
from tidelog.protocol.errors import ErrorCode

PARTITIONS = LOADS_AT_ONCE_MAX + 1
LAST = PARTITIONS - 1


class IdleCoordinator:
    """A coordinator without state."""

    def replay(self, record: object, record_offset: int) -> None: ...

    def advance(self, high_watermark: int) -> None: ...

    def finish_loading(self, now: Moment) -> list[Writes[object]]:
        return []

    def next_deadline_ms(self) -> int | None:
        return None

    def tick(self, now: Moment) -> list[Writes[object]]:
        return []

    def resign(self) -> None: ...


class ShardsFixture:
    """One partition more than are read concurrently."""

    def __init__(self) -> None:
        self.log = MemoryStateLog(PARTITIONS)
        time = VirtualTime()
        form: RecordFormat[IdleCoordinator] = RecordFormat(
            lambda _: (b"", None), lambda _, batches: iter([(0, 0)])
        )
        self.shards: Shards[IdleCoordinator] = Shards(
            "things",
            lambda _: IdleCoordinator(),
            form,
            ShardPorts(self.log, time, time),
            commit_timeout_ms=1_000,
        )

    def state(self, partition: int) -> ShardState | None:
        shard = self.shards.get(partition)
        return None if shard is None else shard.state


@pytest.fixture
async def fixture() -> AsyncIterator[ShardsFixture]:
    fixture = ShardsFixture()
    fixture.shards.start()
    yield fixture
    await fixture.shards.stop()


async def test_partitions_that_cannot_commit_do_not_delay_loading_of_others(fixture: ShardsFixture) -> None:
    """They wait until enough replicas are back, which may take hours."""
    for partition in range(LAST):
        fixture.log.uncommitted[partition] = asyncio.Event()
    for partition in range(PARTITIONS):
        fixture.shards.on_leadership(partition)
    await eventually(lambda: fixture.state(LAST) is ShardState.ACTIVE)
    assert [fixture.state(partition) for partition in range(LAST)] == [ShardState.LOADING] * LAST
    fixture.log.uncommitted[0].set()
    await eventually(lambda: fixture.state(0) is ShardState.ACTIVE)


async def test_a_partition_that_moves_before_it_is_committed_is_not_served(fixture: ShardsFixture) -> None:
    committed = fixture.log.uncommitted[0] = asyncio.Event()
    fixture.shards.on_leadership(0)
    await eventually(lambda: fixture.state(0) is ShardState.LOADING)
    shard = fixture.shards.get(0)
    assert shard is not None
    fixture.shards.on_resignation(0)
    committed.set()
    fixture.shards.on_leadership(0)
    await eventually(lambda: fixture.state(0) is ShardState.ACTIVE)
    assert shard.state is ShardState.CLOSED


async def test_a_partition_that_moves_with_uncommitted_records_logs_no_error(
    fixture: ShardsFixture,
) -> None:
    """The waiting append is refused by the metadata, and the shard closed, before its callbacks run."""
    unhandled = UnhandledErrors(asyncio.get_running_loop())
    fixture.shards.on_leadership(0)
    await eventually(lambda: fixture.state(0) is ShardState.ACTIVE)
    shard = fixture.shards.get(0)
    assert shard is not None
    fixture.log.holds_commits = True
    outcomes: list[ErrorCode] = []
    for _ in range(2):
        shard.perform(Writes(["a record"]), outcomes.append)
    fixture.log.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    fixture.shards.on_resignation(0)
    assert outcomes == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
    del shard
    assert await unhandled.collect_reports() == []


async def test_an_exception_of_a_task_is_logged_when_the_task_ends(
    fixture: ShardsFixture, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        raise ValueError("a defect")

    fixture.shards.spawn(work())
    await eventually(lambda: bool(caplog.records))
    (record,) = caplog.records
    assert record.getMessage() == "A task of the coordinator of things failed"
    assert record.exc_info is not None and isinstance(record.exc_info[1], ValueError)
