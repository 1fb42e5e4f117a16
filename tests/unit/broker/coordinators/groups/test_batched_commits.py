"""Commits of offsets that are appended together, and the requests that depend on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.commits import commit_offsets
from tests.support.groups.ports import group_ports
from tests.support.groups.state_log import MemoryStateLog
from tests.support.groups.verified_log import VerifiedLog
from tests.support.loops.yields import loop_iterations
from tidelog.broker.coordinators.groups.config import GroupConfig
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.groups.transactions import EndOfTransaction
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.batch import read_header
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.protocol.steps import run_steps

LINGER_MS = 5
PRODUCER_ID = 7


class BatchedCommitsFixture:
    """A service over one partition whose commits wait for each other."""

    def __init__(self, config: GroupConfig) -> None:
        self.log, self.time = MemoryStateLog(1), VirtualTime()
        self.config = config
        self.service = GroupService(config, group_ports(self.log, self.time, self.time))
        self.completed: list[int] = []

    async def commit(self, offset: int, group_id: str = "g") -> ErrorCode:
        """Commit an offset of partition 0 of `t`."""
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="t", topic_id=UUID(int=1), partitions=(partition,))
        request = OffsetCommitRequest(group_id=group_id, topics=(topic,))
        try:
            await commit_offsets(self.service, Slices(self.time), request, 9)
        except KafkaError as error:
            return error.code
        self.completed.append(offset)
        return ErrorCode.NONE

    async def commit_now(self, offset: int, group_id: str = "g") -> None:
        """Commit an offset, and let the linger pass."""
        commit = asyncio.ensure_future(self.commit(offset, group_id))
        await loop_iterations(1)
        self.time.pass_time(LINGER_MS)
        assert await commit is ErrorCode.NONE

    async def begin(self, *offsets: int) -> list[asyncio.Task[ErrorCode]]:
        """Begin commits, which wait for the end of the linger."""
        commits = [asyncio.ensure_future(self.commit(offset)) for offset in offsets]
        await loop_iterations(3)
        assert not any(commit.done() for commit in commits)
        return commits

    async def fetch(self, *, require_stable: bool = False) -> tuple[int, ErrorCode]:
        topics = (OffsetFetchRequestTopics(name="t", partition_indexes=(0,)),)
        group = OffsetFetchRequestGroup(group_id="g", topics=topics)
        (response,) = run_steps(await self.service.fetch_offsets((group,), require_stable))
        fetched = response.topics[0].partitions[0]
        return fetched.committed_offset, ErrorCode(fetched.error_code)

    def record_counts(self) -> list[int]:
        """Return the number of records of each batch in the log."""
        return [read_header(batch).record_count for batch in self.log.batches[0]]


async def _serving(config: GroupConfig) -> BatchedCommitsFixture:
    fixture = BatchedCommitsFixture(config)
    fixture.service.start()
    fixture.service.on_leadership(0)
    await loop_iterations()
    return fixture


@pytest.fixture
async def fixture() -> AsyncIterator[BatchedCommitsFixture]:
    fixture = await _serving(group_config(group_coordinator_append_linger_ms=LINGER_MS))
    yield fixture
    await fixture.service.stop()


async def test_by_default_the_commits_of_one_iteration_are_one_batch() -> None:
    fixture = await _serving(group_config())
    assert fixture.config.group_coordinator_append_linger_ms == -1
    assert await asyncio.gather(*map(fixture.commit, range(5))) == [ErrorCode.NONE] * 5
    assert fixture.record_counts() == [5]
    assert await fixture.commit(9) is ErrorCode.NONE
    assert fixture.record_counts() == [5, 1]
    await fixture.service.stop()


async def test_commits_of_one_linger_are_one_batch_and_complete_in_their_order(
    fixture: BatchedCommitsFixture,
) -> None:
    commits = await fixture.begin(3, 1, 2)
    fixture.time.pass_time(LINGER_MS)
    assert await asyncio.gather(*commits) == [ErrorCode.NONE] * 3
    assert (fixture.record_counts(), fixture.completed) == ([3], [3, 1, 2])
    assert await fixture.fetch() == (2, ErrorCode.NONE)


async def test_a_group_that_is_deleted_just_after_a_commit_has_no_offsets(
    fixture: BatchedCommitsFixture,
) -> None:
    await fixture.commit_now(4)
    commits = await fixture.begin(5)
    assert (await fixture.service.delete_groups(("g",)))[0].error_code == 0
    assert await commits[0] is ErrorCode.NONE
    assert await fixture.fetch() == (-1, ErrorCode.NONE)


async def test_an_offset_that_is_deleted_just_after_its_commit_stays_deleted(
    fixture: BatchedCommitsFixture,
) -> None:
    await fixture.commit_now(4)
    commits = await fixture.begin(5)
    deleted = OffsetDeleteRequestTopic(name="t", partitions=(OffsetDeleteRequestPartition(),))
    await fixture.service.delete_offsets(OffsetDeleteRequest(group_id="g", topics=(deleted,)))
    assert await commits[0] is ErrorCode.NONE
    assert await fixture.fetch() == (-1, ErrorCode.NONE)


async def test_an_offset_that_is_committed_while_offsets_expire_is_kept() -> None:
    """The check of the groups takes several iterations, and the commit waits between two of them."""
    config = group_config(group_coordinator_append_linger_ms=LINGER_MS)
    fixture = await _serving(config)
    for number in range(300):
        await fixture.commit_now(1, f"g{number}")
    await fixture.commit_now(1, "g")
    fixture.time.step_wall_clock(config.offsets_retention_ms)
    fixture.time.pass_time(config.offsets_retention_check_interval_ms)
    await loop_iterations(1)
    commit = asyncio.ensure_future(fixture.commit(2))
    await loop_iterations(20)
    fixture.time.pass_time(LINGER_MS)
    assert await commit is ErrorCode.NONE
    assert await fixture.fetch() == (2, ErrorCode.NONE)
    groups = run_steps(fixture.service.list_groups((), ()))
    assert [group.group_id for group in groups] == ["g"]
    await fixture.service.stop()


async def test_a_fetch_with_require_stable_waits_for_a_batched_commit(fixture: BatchedCommitsFixture) -> None:
    fixture.log.holds_commits = True
    commits = await fixture.begin(5)
    fetch = asyncio.ensure_future(fixture.fetch(require_stable=True))
    await loop_iterations()
    assert not fetch.done()
    fixture.log.commit_all()
    assert await fetch == (5, ErrorCode.NONE)
    assert await commits[0] is ErrorCode.NONE


async def test_offsets_of_a_transaction_are_appended_alone_and_after_earlier_commits(
    fixture: BatchedCommitsFixture,
) -> None:
    transactions = fixture.service.transactions(VerifiedLog(fixture.log))
    commits = await fixture.begin(1, 2)
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(offset,)),),
    )
    await transactions.commit_offsets(request, {"t": UUID(int=1)}, 5)
    assert await asyncio.gather(*commits) == [ErrorCode.NONE] * 2
    assert fixture.record_counts() == [2, 1]
    assert await fixture.fetch() == (2, ErrorCode.NONE)
    assert await fixture.fetch(require_stable=True) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


async def test_a_commit_before_the_end_of_a_transaction_is_replaced_by_its_offsets_only_if_it_is_older(
    fixture: BatchedCommitsFixture,
) -> None:
    transactions = fixture.service.transactions(VerifiedLog(fixture.log))
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=3)
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=PRODUCER_ID,
        producer_epoch=0,
        topics=(TxnOffsetCommitRequestTopic(name="t", partitions=(offset,)),),
    )
    await transactions.commit_offsets(request, {"t": UUID(int=1)}, 5)
    commits = await fixture.begin(8)
    await transactions.end(0, EndOfTransaction(PRODUCER_ID, 0, True, 0, 2), 1_000)
    assert await commits[0] is ErrorCode.NONE
    assert fixture.record_counts() == [1, 1, 1]
    # The commit outside of the transaction is later in the log than the offset of the transaction.
    assert await fixture.fetch() == (8, ErrorCode.NONE)


async def test_a_batch_that_cannot_be_appended_leaves_no_offset_and_no_group(
    fixture: BatchedCommitsFixture,
) -> None:
    fixture.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    commits = await fixture.begin(1, 2)
    fixture.time.pass_time(LINGER_MS)
    assert await asyncio.gather(*commits) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert await fixture.fetch() == (-1, ErrorCode.NONE)
    assert run_steps(fixture.service.list_groups((), ())) == []


async def test_commits_that_wait_are_refused_when_the_partition_moves(fixture: BatchedCommitsFixture) -> None:
    commits = await fixture.begin(1, 2)
    fixture.service.on_resignation(0)
    assert await asyncio.gather(*commits) == [ErrorCode.NOT_COORDINATOR] * 2
    assert fixture.record_counts() == []
