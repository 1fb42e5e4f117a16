"""Concurrent loading of the partitions of an internal topic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.unhandled import Unhandled
from tests.support.waiting import eventually
from tidelog.broker.coordinators.shared.moment import Moment
from tidelog.broker.coordinators.shared.outcome import Writes
from tidelog.broker.coordinators.shared.shard import RecordFormat, ShardPorts, ShardState
from tidelog.broker.coordinators.shared.shards import LOADS_AT_ONCE_MAX, Shards
from tidelog.protocol.errors import ErrorCode

PARTITIONS = LOADS_AT_ONCE_MAX + 1
LAST = PARTITIONS - 1


class Idle:
    """A coordinator that keeps nothing."""

    def replay(self, record: object, record_offset: int) -> None: ...

    def advance(self, high_watermark: int) -> None: ...

    def finish_loading(self, now: Moment) -> list[Writes[object]]:
        return []

    def next_deadline_ms(self) -> int | None:
        return None

    def tick(self, now: Moment) -> list[Writes[object]]:
        return []

    def resign(self) -> None: ...


class Bench:
    """One partition more than are read at once."""

    def __init__(self) -> None:
        self.log = MemoryStateLog(PARTITIONS)
        time = VirtualTime()
        form: RecordFormat[Idle] = RecordFormat(lambda _: (b"", None), lambda _, batches: iter([(0, 0)]))
        self.shards: Shards[Idle] = Shards(
            "things", lambda _: Idle(), form, ShardPorts(self.log, time, time), commit_timeout_ms=1_000
        )

    def state(self, partition: int) -> ShardState | None:
        shard = self.shards.get(partition)
        return None if shard is None else shard.state


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = Bench()
    made.shards.start()
    yield made
    await made.shards.stop()


async def test_partitions_that_cannot_commit_do_not_delay_loading_of_others(bench: Bench) -> None:
    """They wait until enough replicas are back, which may take hours."""
    for partition in range(LAST):
        bench.log.uncommitted[partition] = asyncio.Event()
    for partition in range(PARTITIONS):
        bench.shards.on_leadership(partition)
    await eventually(lambda: bench.state(LAST) is ShardState.ACTIVE)
    assert [bench.state(partition) for partition in range(LAST)] == [ShardState.LOADING] * LAST
    bench.log.uncommitted[0].set()
    await eventually(lambda: bench.state(0) is ShardState.ACTIVE)


async def test_a_partition_that_moves_before_it_is_committed_is_not_served(bench: Bench) -> None:
    committed = bench.log.uncommitted[0] = asyncio.Event()
    bench.shards.on_leadership(0)
    await eventually(lambda: bench.state(0) is ShardState.LOADING)
    shard = bench.shards.get(0)
    assert shard is not None
    bench.shards.on_resignation(0)
    committed.set()
    bench.shards.on_leadership(0)
    await eventually(lambda: bench.state(0) is ShardState.ACTIVE)
    assert shard.state is ShardState.CLOSED


async def test_a_partition_that_moves_with_uncommitted_records_logs_no_error(
    bench: Bench,
) -> None:
    """The waiting append is refused by the metadata, and the shard closed, before its callbacks run."""
    unhandled = Unhandled(asyncio.get_running_loop())
    bench.shards.on_leadership(0)
    await eventually(lambda: bench.state(0) is ShardState.ACTIVE)
    shard = bench.shards.get(0)
    assert shard is not None
    bench.log.holds_commits = True
    outcomes: list[ErrorCode] = []
    for _ in range(2):
        shard.perform(Writes(["a record"]), outcomes.append)
    bench.log.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    bench.shards.on_resignation(0)
    assert outcomes == [ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR]
    del shard
    assert await unhandled.reports() == []
