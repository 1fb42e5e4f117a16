"""Requests for many groups or partitions yield to other requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.commits import commit_offsets
from tests.support.groups.ports import group_ports
from tests.support.groups.state_log import MemoryStateLog
from tests.support.groups.verified_log import VerifiedLog
from tests.support.loops.yields import STEPS_PER_SLICE, IterationCounter, counted_slices, loop_iterations
from tests.support.security.authorizers import ALLOW_EVERYTHING, DenyingAuthorizer
from tests.support.waiting import eventually
from tidelog.broker.api.handlers.offset_commit import OffsetCommitHandler
from tidelog.broker.api.handlers.offset_fetch import OffsetFetchHandler
from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.coordinators.groups import service
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.offset_expiration import GROUPS_PER_PART
from tidelog.broker.coordinators.groups.records.coordinator_records import (
    CoordinatorRecord,
    encode_record,
    size_bytes_min,
)
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.groups.transactions import EndOfTransaction
from tidelog.broker.coordinators.shared.shard import RECORDS_BETWEEN_PAUSES
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from tidelog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.steps import Steps, run_steps

MANY = 3_000
SLICES_OF_MANY = MANY // STEPS_PER_SLICE


class LargeGroupsFixture:
    """A service over one partition; ten steps make a slice."""

    def __init__(self) -> None:
        self.time, self.log = VirtualTime(), MemoryStateLog(1)
        self.slices = counted_slices()
        self.service = GroupService(group_config(), group_ports(self.log, self.time, self.time, self.slices))

    async def commit(self, group_id: str, partitions: int = 1) -> None:
        wanted = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=index)
            for index in range(partitions)
        )
        topic = OffsetCommitRequestTopic(name="t", topic_id=UUID(int=1), partitions=wanted)
        await self.send_commit(OffsetCommitRequest(group_id=group_id, topics=(topic,)))

    async def send_commit(self, request: OffsetCommitRequest) -> None:
        await commit_offsets(self.service, self.slices, request, 9)

    async def join(self, group_id: str) -> JoinGroupResponse:
        """Form a group of one member."""
        protocols = (JoinGroupRequestProtocol(name="range", metadata=b""),)
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=protocols,
        )
        client = Client("c", "/127.0.0.1")
        named = await self.service.join(client, request, 9)
        joining = self.service.join(client, replace(request, member_id=named.member_id), 9)
        self.time.pass_time(group_config().group_initial_rebalance_delay_ms)
        return await joining

    async def fetch_everything(self, *group_ids: str) -> list[tuple[int, int]]:
        groups = [OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in group_ids]
        responses = await self.slices.complete(await self.service.fetch_offsets(groups, True))
        return [
            (response.error_code, sum(len(topic.partitions) for topic in response.topics))
            for response in responses
        ]


@pytest.fixture
async def fixture() -> AsyncIterator[LargeGroupsFixture]:
    fixture = LargeGroupsFixture()
    fixture.service.start()
    fixture.service.on_leadership(0)
    await loop_iterations(20)
    yield fixture
    await fixture.service.stop()


async def test_offsets_of_many_groups_are_fetched_in_slices(fixture: LargeGroupsFixture) -> None:
    await fixture.commit("g1")
    turns, before = IterationCounter(), fixture.slices.slice_count
    fetched = await fixture.fetch_everything(*(f"g{number}" for number in range(MANY)))
    turns.stop()
    assert fetched == [(0, 1 if number == 1 else 0) for number in range(MANY)]
    assert fixture.slices.slice_count - before >= 2 * SLICES_OF_MANY
    assert turns.count >= 2 * SLICES_OF_MANY - 5


async def test_many_offsets_of_a_group_are_committed_and_fetched_in_slices(
    fixture: LargeGroupsFixture,
) -> None:
    await fixture.commit("g", MANY)
    assert fixture.slices.slice_count >= SLICES_OF_MANY
    before = fixture.slices.slice_count
    assert await fixture.fetch_everything("g") == [(0, MANY)]
    assert fixture.slices.slice_count - before >= SLICES_OF_MANY
    topics = (OffsetFetchRequestTopics(name="t", partition_indexes=tuple(range(MANY))),)
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    (response,) = run_steps(await fixture.service.fetch_offsets((group,), False))
    assert [fetched.committed_offset for fetched in response.topics[0].partitions] == list(range(MANY))


class CountedTopics(dict[Any, Any]):
    """Topics of the metadata that count how often one is looked up."""

    count = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.count += 1
        return super().get(key, default)


async def test_the_topics_of_a_commit_are_looked_up_in_steps(fixture: LargeGroupsFixture) -> None:
    """The names of 40,000 topics were looked up at once, which blocked the event loop for 13 ms."""
    topic = SimpleNamespace(id=UUID(int=1), name="t", partitions={0: None})
    by_name, by_id = CountedTopics(t=topic), CountedTopics({topic.id: topic})
    image: Any = SimpleNamespace(topics_by_name=by_name, topics_by_id=by_id)
    partitions = (OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
    requested = OffsetCommitRequestTopic(topic_id=topic.id, partitions=partitions)
    header = RequestHeader(ApiKey.OFFSET_COMMIT, 10, 0, "c")
    context = RequestContext(header, "PLAINTEXT", "127.0.0.1:5", "User:ANONYMOUS", 0, ConnectedClient())
    access = TopicAccess(lambda: image, fixture.slices, DenyingAuthorizer(()))
    handler = OffsetCommitHandler(fixture.service.offset_commits, access)
    lookups = 0
    for _ in handler.handle(context, OffsetCommitRequest(group_id="g", topics=(requested,) * MANY)):
        assert by_name.count + by_id.count - lookups <= 4
        lookups = by_name.count + by_id.count
    assert lookups >= 3 * MANY


@pytest.mark.parametrize("is_named", [True, False])
async def test_many_topics_are_fetched_in_slices_in_an_early_version(
    fixture: LargeGroupsFixture, is_named: bool
) -> None:
    topics = [
        OffsetCommitRequestTopic(name=f"t{number}", partitions=(OffsetCommitRequestPartition(),))
        for number in range(MANY)
    ]
    await fixture.send_commit(OffsetCommitRequest(group_id="g", topics=tuple(topics)))
    image: Any = SimpleNamespace(topics_by_name={}, topics_by_id={})
    slices = counted_slices()
    named = tuple(OffsetFetchRequestTopic(name=topic.name, partition_indexes=(0,)) for topic in topics)
    header = RequestHeader(ApiKey.OFFSET_FETCH, 7, 0, "c")
    context = RequestContext(header, "PLAINTEXT", "127.0.0.1:5", "User:ANONYMOUS", 0, ConnectedClient())
    handler = OffsetFetchHandler(fixture.service, TopicAccess(lambda: image, slices, ALLOW_EVERYTHING))
    request = OffsetFetchRequest(group_id="g", topics=named if is_named else None)
    response = await slices.complete(await handler.handle(context, request))
    assert [topic.name for topic in response.topics] == [topic.name for topic in topics]
    # Steps for the checks of the topics, and for the response; of named topics also for their conversion.
    assert slices.slice_count >= (7 if is_named else 3) * SLICES_OF_MANY


async def _fetch_steps(
    fixture: LargeGroupsFixture, *groups: OffsetFetchRequestGroup
) -> Steps[OffsetFetchResponse]:
    image: Any = SimpleNamespace(topics_by_name={"t": SimpleNamespace(id=UUID(int=1))}, topics_by_id={})
    header = RequestHeader(ApiKey.OFFSET_FETCH, 9, 0, "c")
    context = RequestContext(header, "PLAINTEXT", "127.0.0.1:5", "User:ANONYMOUS", 0, ConnectedClient())
    topics = TopicAccess(lambda: image, fixture.slices, ALLOW_EVERYTHING)
    handler = OffsetFetchHandler(fixture.service, topics)
    return await handler.handle(context, OffsetFetchRequest(groups=groups))


async def _fetch_topics(fixture: LargeGroupsFixture, *groups: OffsetFetchRequestGroup) -> OffsetFetchResponse:
    return await fixture.slices.complete(await _fetch_steps(fixture, *groups))


async def test_offsets_are_read_when_the_dispatcher_runs_the_steps_of_the_response(
    fixture: LargeGroupsFixture,
) -> None:
    """The dispatcher limits how many large responses are computed at the same time."""
    await fixture.commit("g", MANY)
    before = fixture.slices.slice_count
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    steps = await _fetch_steps(fixture, group)
    assert fixture.slices.slice_count - before < SLICES_OF_MANY
    response = await fixture.slices.complete(steps)
    assert fixture.slices.slice_count - before >= SLICES_OF_MANY
    assert response.groups[0].error_code == ErrorCode.NONE
    steps = await _fetch_steps(fixture, group)
    fixture.service.on_resignation(0)
    response = await fixture.slices.complete(steps)
    assert (response.groups[0].error_code, response.groups[0].topics) == (ErrorCode.NOT_COORDINATOR, ())


async def test_several_groups_with_many_partitions_are_compared_in_slices(
    fixture: LargeGroupsFixture,
) -> None:
    """A hash of a whole group would take long: no step reads more than one partition."""
    indexes = _CountedIndexes(range(MANY))
    topics: Any = (OffsetFetchRequestTopics(name="t", partition_indexes=indexes),)
    groups = [OffsetFetchRequestGroup(group_id=f"g{number}", topics=topics) for number in range(3)]
    before = fixture.slices.slice_count
    response = await _fetch_topics(fixture, *groups)
    assert [len(group.topics[0].partitions) for group in response.groups] == [MANY] * 3
    assert fixture.slices.slice_count - before >= 6 * SLICES_OF_MANY
    assert indexes.hash_count == 0


class _CountedIndexes(tuple[int, ...]):
    """Partition indexes that count how often their hash is computed."""

    hash_count = 0

    def __hash__(self) -> int:
        type(self).hash_count += 1
        return super().__hash__()


async def test_each_partition_of_a_group_is_fetched_once(fixture: LargeGroupsFixture) -> None:
    await fixture.commit("g", 3)

    def request_topics(*topics: tuple[str, tuple[int, ...]]) -> OffsetFetchRequestGroup:
        named = tuple(OffsetFetchRequestTopics(name=name, partition_indexes=each) for name, each in topics)
        return OffsetFetchRequestGroup(group_id="g", topics=named)

    everything = OffsetFetchRequestGroup(group_id="g", topics=None)
    response = await _fetch_topics(
        fixture,
        request_topics(("t", (0, 1, 0)), ("u", ()), ("t", (1, 2))),
        request_topics(("t", (0,)), ("t", (2, 4)), ("u", ())),
        request_topics(("t", (0,))),
        everything,
        everything,
    )
    fetched = [
        [(topic.name, [each.partition_index for each in topic.partitions]) for topic in group.topics]
        for group in response.groups
    ]
    assert fetched == [[("t", [0, 1]), ("u", []), ("t", [2])], [("t", [4])], [("t", [0, 1, 2])]]


async def test_a_commit_whose_group_moves_before_the_write_is_refused(fixture: LargeGroupsFixture) -> None:
    committing = asyncio.ensure_future(fixture.commit("g", MANY))
    await eventually(lambda: fixture.slices.pending_count > 0)
    fixture.service.on_resignation(0)
    with pytest.raises(KafkaError) as refused:
        await committing
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
    assert fixture.log.end_offset(0) == 0


async def test_offsets_of_a_group_that_moves_during_the_fetch_are_not_returned(
    fixture: LargeGroupsFixture,
) -> None:
    await fixture.commit("g", MANY)
    fetching = asyncio.ensure_future(fixture.fetch_everything("g"))
    await eventually(lambda: fixture.slices.pending_count > 0)
    fixture.service.on_resignation(0)
    assert await fetching == [(ErrorCode.NOT_COORDINATOR, 0)]


async def test_many_groups_are_deleted_in_slices(fixture: LargeGroupsFixture) -> None:
    await fixture.commit("g7")
    before = fixture.slices.slice_count
    results = await fixture.service.delete_groups(f"g{number}" for number in range(MANY))
    # For the states of share groups, for the tombstones, and for the results.
    assert fixture.slices.slice_count - before >= 3 * SLICES_OF_MANY
    assert [result.error_code for result in results] == [
        ErrorCode.NONE if number == 7 else ErrorCode.GROUP_ID_NOT_FOUND for number in range(MANY)
    ]
    assert await fixture.fetch_everything("g7") == [(0, 0)]


async def test_groups_are_listed_with_many_filters_in_slices(fixture: LargeGroupsFixture) -> None:
    await fixture.join("g")
    before = fixture.slices.slice_count
    states = (*(f"Unknown-{number}" for number in range(MANY)), " completingREBALANCE")
    listed = await fixture.slices.complete(fixture.service.list_groups(states, ("Classic",) * MANY))
    assert [group.group_id for group in listed] == ["g"]
    assert fixture.slices.slice_count - before >= 2 * SLICES_OF_MANY


async def test_many_members_leave_in_slices_once_each(fixture: LargeGroupsFixture) -> None:
    joined = await fixture.join("g")
    identities = [MemberIdentity(member_id=f"unknown-{number}") for number in range(MANY)]
    identities += [MemberIdentity(member_id=joined.member_id)] * 2
    turns, before = IterationCounter(), fixture.slices.slice_count
    request = LeaveGroupRequest(group_id="g", members=tuple(identities))
    response = await fixture.service.leave(request, 5)
    turns.stop()
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.error_code for member in response.members] == [unknown] * MANY + [ErrorCode.NONE, unknown]
    assert fixture.slices.slice_count - before >= SLICES_OF_MANY
    assert turns.count >= SLICES_OF_MANY - 5


async def test_a_member_removed_during_a_leave_of_many_is_unknown(fixture: LargeGroupsFixture) -> None:
    joined = await fixture.join("g")
    last = MemberIdentity(member_id=joined.member_id)
    members = (*(MemberIdentity(member_id=f"unknown-{number}") for number in range(MANY)), last)
    leaving = asyncio.ensure_future(
        fixture.service.leave(LeaveGroupRequest(group_id="g", members=members), 5)
    )
    await eventually(lambda: fixture.slices.pending_count > 0)
    (alone,) = (await fixture.service.leave(LeaveGroupRequest(group_id="g", members=(last,)), 5)).members
    assert alone.error_code == ErrorCode.NONE
    assert (await leaving).members[-1].error_code == ErrorCode.UNKNOWN_MEMBER_ID


async def test_an_assignment_too_large_for_a_batch_is_rejected_before_it_is_encoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoded: list[int] = []

    def encode_and_count(record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        encoded.append(size_bytes_min(record))
        return encode_record(record)

    monkeypatch.setattr(service, "encode_record", encode_and_count)
    fixture = LargeGroupsFixture()
    fixture.service.start()
    fixture.service.on_leadership(0)
    await loop_iterations(20)
    fixture.log.largest_batch_bytes = 1_000_000
    joined = await fixture.join("g")
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(1_000_001))
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=(assignment,),
    )
    assert (await fixture.service.sync(request)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    small = replace(request, assignments=(replace(assignment, assignment=b"all"),))
    assert (await fixture.service.sync(small)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert max(encoded) == 0
    await fixture.service.stop()


async def test_many_offsets_of_a_transaction_are_committed_in_slices(fixture: LargeGroupsFixture) -> None:
    transactions = fixture.service.transactions(VerifiedLog(fixture.log))
    partitions = tuple(
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=index)
        for index in range(MANY)
    )
    request = TxnOffsetCommitRequest(
        transactional_id="tx",
        group_id="g",
        producer_id=7,
        producer_epoch=0,
        topics=(TxnOffsetCommitRequestTopic(name="t", partitions=partitions),),
    )
    turns, before = IterationCounter(), fixture.slices.slice_count
    response = await transactions.commit_offsets(request, {"t": UUID(int=1)}, 5)
    turns.stop()
    assert [each.error_code for each in response.topics[0].partitions] == [ErrorCode.NONE] * MANY
    assert fixture.slices.slice_count - before >= SLICES_OF_MANY
    assert turns.count >= SLICES_OF_MANY - 5
    assert await fixture.fetch_everything("g") == [(0, 0)]
    await transactions.end(0, EndOfTransaction(7, 0, True, 0, 2), 1_000)
    assert await fixture.fetch_everything("g") == [(0, MANY)]


async def test_offsets_of_many_groups_expire_in_slices_and_a_renewed_one_is_kept(
    fixture: LargeGroupsFixture,
) -> None:
    config, groups = group_config(), 10 * GROUPS_PER_PART
    for number in range(groups):
        await fixture.commit(f"g{number}")
    fixture.time.step_wall_clock(config.offsets_retention_ms)
    turns = IterationCounter()
    fixture.time.pass_time(config.offsets_retention_check_interval_ms)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    # The first part has expired; the last group commits again before its part is checked.
    assert await fixture.fetch_everything("g0") == [(0, 0)]
    await fixture.commit(f"g{groups - 1}")
    await eventually(lambda: turns.count > 20)
    turns.stop()
    names = [f"g{number}" for number in range(groups)]
    kept = [
        name for name, (_, count) in zip(names, await fixture.fetch_everything(*names), strict=True) if count
    ]
    assert kept == [f"g{groups - 1}"]


async def test_a_batch_of_many_offsets_is_loaded_in_slices(fixture: LargeGroupsFixture) -> None:
    await fixture.commit("g", MANY)
    assert len(fixture.log.batches[0]) == 1
    fixture.service.on_resignation(0)
    fixture.service.on_leadership(0)
    turns = 0
    while await fixture.fetch_everything("g") == [(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 0)]:
        turns += 1
        await asyncio.sleep(0)
    assert turns >= MANY // RECORDS_BETWEEN_PAUSES
    assert await fixture.fetch_everything("g") == [(0, MANY)]
