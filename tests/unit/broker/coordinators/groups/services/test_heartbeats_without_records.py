"""A heartbeat that changes nothing gets its response when all earlier records are committed, as in Kafka.

Otherwise a member may have an epoch that the next coordinator does not know.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Container, Iterable

import pytest

from tests.support.configs import group_config
from tests.support.groups.group_service import CLIENT, CONFIG, GROUP, GroupServiceFixture
from tests.support.groups.streams_members import WORD_COUNT
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tidelog.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from tidelog.protocol.steps import Steps

Heartbeat = Callable[[], Awaitable[int]]
"""Sends a heartbeat without a change. Return the error code."""


def _describable(names: Iterable[str]) -> Steps[Container[str]]:
    return frozenset(names)
    yield None


async def _classic(fixture: GroupServiceFixture) -> Heartbeat:
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=await fixture.stable_member())

    async def heartbeat() -> int:
        response = fixture.service.heartbeat(request)
        return (response if isinstance(response, HeartbeatResponse) else await response).error_code

    return heartbeat


async def _consumer(fixture: GroupServiceFixture) -> Heartbeat:
    async def send(request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        result = fixture.service.consumer_groups.heartbeat(CLIENT, request, 1, _describable)
        return result if isinstance(result, ConsumerGroupHeartbeatResponse) else await result

    joined = await send(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="m",
            rebalance_timeout_ms=1,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
    )
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=joined.member_epoch)

    async def heartbeat() -> int:
        return (await send(request)).error_code

    return heartbeat


async def _share(fixture: GroupServiceFixture) -> Heartbeat:
    joining = ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m", subscribed_topic_names=("t",))
    joined = await fixture.service.share_groups.heartbeat(CLIENT, joining)
    request = ShareGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=joined.member_epoch)

    async def heartbeat() -> int:
        return (await fixture.service.share_groups.heartbeat(CLIENT, request)).error_code

    return heartbeat


async def _streams(fixture: GroupServiceFixture) -> Heartbeat:
    joining = StreamsGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        rebalance_timeout_ms=1,
        process_id="p",
        topology=WORD_COUNT,
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
    )
    joined = await fixture.service.streams_groups.heartbeat(CLIENT, joining)
    epoch = joined.response.member_epoch
    request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id="m", member_epoch=epoch)

    async def heartbeat() -> int:
        return (await fixture.service.streams_groups.heartbeat(CLIENT, request)).response.error_code

    return heartbeat


@pytest.fixture
async def fixture() -> AsyncIterator[GroupServiceFixture]:
    fixture = await GroupServiceFixture(config=group_config()).start_serving(0)
    yield fixture
    await fixture.service.stop()


ALL_PROTOCOLS = pytest.mark.parametrize("member", [_classic, _consumer, _share, _streams])
Member = Callable[[GroupServiceFixture], Awaitable[Heartbeat]]


@ALL_PROTOCOLS
async def test_a_heartbeat_waits_for_the_records_before_it_and_not_for_later_ones(
    fixture: GroupServiceFixture, member: Member
) -> None:
    heartbeat = await member(fixture)
    assert await heartbeat() == ErrorCode.NONE
    fixture.log.holds_commits = True
    commit = asyncio.ensure_future(fixture.commit(5, group_id="f"))
    await fixture.settle()
    response = asyncio.ensure_future(heartbeat())
    await fixture.settle()
    assert not response.done()
    held, fixture.log.held = fixture.log.held, []
    later = asyncio.ensure_future(fixture.commit(6, group_id="f"))
    await fixture.settle()
    fixture.log.held, later_held = held, fixture.log.held
    fixture.log.commit_all()
    assert (await response, await commit) == (ErrorCode.NONE, ErrorCode.NONE)
    assert not later.done()
    fixture.log.held = later_held
    fixture.log.commit_all()
    assert await later is ErrorCode.NONE


@ALL_PROTOCOLS
async def test_a_heartbeat_waits_at_most_the_commit_timeout(member: Member) -> None:
    fixture = await GroupServiceFixture(config=CONFIG).start_serving(0)
    heartbeat = await member(fixture)
    fixture.log.holds_commits = True
    commit = asyncio.ensure_future(fixture.commit(5, group_id="f"))
    await fixture.settle()
    assert await _error_of(heartbeat()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    (shard,) = fixture.service._shards.active_shards()
    assert not shard._waiting_for_commits
    fixture.time.pass_time(CONFIG.offsets_commit_timeout_ms)
    assert await commit is ErrorCode.COORDINATOR_NOT_AVAILABLE
    await fixture.service.stop()


@ALL_PROTOCOLS
async def test_a_heartbeat_whose_earlier_records_are_lost_is_rejected(
    fixture: GroupServiceFixture, member: Member
) -> None:
    heartbeat = await member(fixture)
    fixture.log.holds_commits = True
    commit = asyncio.ensure_future(fixture.commit(5, group_id="f"))
    await fixture.settle()
    response = asyncio.ensure_future(_error_of(heartbeat()))
    await fixture.settle()
    fixture.log.fail_commits(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert await response is ErrorCode.NOT_COORDINATOR
    assert await commit is ErrorCode.NOT_COORDINATOR


async def _error_of(response: Awaitable[int]) -> ErrorCode:
    """Return the error code of a response, also if the handler must add it."""
    try:
        return ErrorCode(await response)
    except KafkaError as error:
        return error.code
