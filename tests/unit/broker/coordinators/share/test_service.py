"""The share coordinator of a node: loads, results after the commit, snapshots, deletion of records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import share_coordinator_config
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import loop_iterations
from tests.support.waiting import eventually
from tidelog.broker.coordinators.share.persister import (
    InitialState,
    SharePartitionKey,
    ShareStateBatch,
    StateRead,
    StateWrite,
    StoredState,
)
from tidelog.broker.coordinators.share.service import ShareCoordinatorPorts, ShareCoordinatorService
from tidelog.protocol.batch import read_header
from tidelog.protocol.errors import ErrorCode, KafkaError

TOPIC = UUID(int=7)
PARTITIONS = [SharePartitionKey("g", TOPIC, index) for index in range(3)]
INTERVAL_MS = 60_000
WRITE_TIMEOUT_MS = 30


class ServiceFixture:
    def __init__(self) -> None:
        self.log = MemoryStateLog(1)
        self.time = VirtualTime()
        self.is_enabled = True
        self.deletions: list[tuple[int, int]] = []
        self.deletion_error: ErrorCode | None = None
        self.service = ShareCoordinatorService(
            share_coordinator_config(
                share_coordinator_write_timeout_ms=WRITE_TIMEOUT_MS,
                share_coordinator_state_topic_prune_interval_ms=INTERVAL_MS,
                share_coordinator_cold_partition_snapshot_interval_ms=INTERVAL_MS - 1,
                share_coordinator_snapshot_update_records_per_snapshot=2,
            ),
            ShareCoordinatorPorts(
                log=self.log,
                timer=self.time,
                clock=self.time,
                partition_count=lambda topic_id: 3 if topic_id == TOPIC else 0,
                is_enabled=lambda: self.is_enabled,
                delete_records_before=self._delete,
            ),
        )

    def _delete(self, partition: int, offset: int) -> None:
        if self.deletion_error is not None:
            raise KafkaError(self.deletion_error)
        self.deletions.append((partition, offset))

    async def lead(self) -> None:
        self.service.on_leadership(0)
        await eventually(lambda: self.service.state_count() >= 0 and self.is_active())

    def is_active(self) -> bool:
        return bool(self.service._shards.active_shards())

    async def reload(self) -> None:
        self.service.on_resignation(0)
        await self.lead()

    async def initialize(self) -> None:
        states = [InitialState(share_partition=each, state_epoch=1) for each in PARTITIONS]
        assert {result.error_code for result in await self.service.initialize(states)} == {ErrorCode.NONE}

    async def read(self, partition: SharePartitionKey = PARTITIONS[0]) -> StoredState:
        [state] = await self.service.read([StateRead(share_partition=partition, leader_epoch=-1)])
        return state

    async def write(self, start_offset: int, *batches: ShareStateBatch) -> ErrorCode:
        write = StateWrite(
            share_partition=PARTITIONS[0],
            state_epoch=1,
            leader_epoch=-1,
            start_offset=start_offset,
            batches=batches,
        )
        return (await self.service.write([write]))[0].error_code


@pytest.fixture
async def fixture() -> AsyncIterator[ServiceFixture]:
    fixture = ServiceFixture()
    fixture.service.start()
    yield fixture
    await fixture.service.stop()


async def test_a_state_is_the_same_after_the_partition_is_loaded_again(fixture: ServiceFixture) -> None:
    await fixture.lead()
    await fixture.initialize()
    for number in range(7):
        batch = ShareStateBatch(100 + number, 100 + number, 2, 1)
        assert await fixture.write(number, batch) is ErrorCode.NONE
    before = [await fixture.read(each) for each in PARTITIONS]
    assert before[0].batches == (ShareStateBatch(100, 106, 2, 1),)
    await fixture.reload()
    assert [await fixture.read(each) for each in PARTITIONS] == before


async def test_a_node_that_does_not_lead_or_is_loading_returns_errors(fixture: ServiceFixture) -> None:
    assert (await fixture.read()).error_code is ErrorCode.NOT_COORDINATOR
    fixture.log.read_gate = asyncio.Event()
    fixture.service.on_leadership(0)
    assert (await fixture.read()).error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    fixture.log.read_gate.set()
    await eventually(fixture.is_active)
    assert (await fixture.read()).error_code is ErrorCode.INVALID_REQUEST


async def test_a_result_waits_for_the_commit_and_times_out(fixture: ServiceFixture) -> None:
    await fixture.lead()
    await fixture.initialize()
    fixture.log.holds_commits = True
    writing = asyncio.ensure_future(fixture.write(5))
    await loop_iterations()
    assert not writing.done()
    fixture.log.commit_all()
    assert await writing is ErrorCode.NONE
    writing = asyncio.ensure_future(fixture.write(6))
    await loop_iterations()
    fixture.time.pass_time(WRITE_TIMEOUT_MS)
    assert await writing is ErrorCode.COORDINATOR_NOT_AVAILABLE
    fixture.log.commit_all()


async def test_changes_of_different_states_are_one_batch_and_those_of_one_state_depend_on_each_other(
    fixture: ServiceFixture,
) -> None:
    await fixture.lead()
    await fixture.initialize()
    assert [read_header(batch).record_count for batch in fixture.log.batches[0]] == [3]
    writes = [
        StateWrite(share_partition=each, state_epoch=1, leader_epoch=-1, start_offset=start, batches=())
        for each, start in ((PARTITIONS[0], 5), (PARTITIONS[1], 6), (PARTITIONS[0], 7), (PARTITIONS[2], 8))
    ]
    results = await fixture.service.write(writes)
    assert [result.error_code for result in results] == [ErrorCode.NONE] * 4
    assert [read_header(batch).record_count for batch in fixture.log.batches[0]] == [3, 2, 2]
    assert [(await fixture.read(each)).start_offset for each in PARTITIONS] == [7, 6, 8]


async def test_a_batch_of_states_that_is_not_appended_changes_none_of_them(fixture: ServiceFixture) -> None:
    await fixture.lead()
    await fixture.initialize()
    fixture.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    writes = [
        StateWrite(share_partition=each, state_epoch=1, leader_epoch=-1, start_offset=9, batches=())
        for each in PARTITIONS
    ]
    results = await fixture.service.write(writes)
    assert {result.error_code for result in results} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    fixture.log.append_error = None
    assert [(await fixture.read(each)).start_offset for each in PARTITIONS] == [-1] * 3


async def test_records_that_no_load_needs_are_deleted_once(fixture: ServiceFixture) -> None:
    await fixture.lead()
    await fixture.initialize()
    for number in range(4):
        await fixture.write(number)
    fixture.time.pass_time(INTERVAL_MS)
    # The snapshots of the states without updates are written just before the deletion.
    await eventually(lambda: fixture.deletions)
    [(partition, offset)] = fixture.deletions
    assert partition == 0
    assert offset >= 3
    before = [await fixture.read(each) for each in PARTITIONS]
    fixture.log.batches[0] = fixture.log.batches[0][-(fixture.log.end_offset(0) - offset) :]
    await fixture.reload()
    assert [await fixture.read(each) for each in PARTITIONS] == before


async def test_records_are_deleted_later_after_an_error_and_not_without_share_groups(
    fixture: ServiceFixture,
) -> None:
    await fixture.lead()
    await fixture.initialize()
    fixture.is_enabled = False
    fixture.time.pass_time(INTERVAL_MS)
    await loop_iterations()
    assert fixture.log.end_offset(0) == 3, "no snapshots are written either"
    fixture.is_enabled = True
    fixture.deletion_error = ErrorCode.OFFSET_OUT_OF_RANGE
    fixture.time.pass_time(INTERVAL_MS)
    await loop_iterations()
    fixture.deletion_error = None
    fixture.time.pass_time(INTERVAL_MS)
    await eventually(lambda: fixture.deletions)


async def test_the_states_of_a_deleted_topic_are_deleted(fixture: ServiceFixture) -> None:
    await fixture.lead()
    await fixture.initialize()
    fixture.service.on_topics_deleted({TOPIC})
    await eventually(lambda: fixture.service.state_count() == 0)
    await fixture.reload()
    assert fixture.service.state_count() == 0
