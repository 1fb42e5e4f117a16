"""Heartbeats that subscribe to thousands of topics yield to other requests.

The names are prepared in slices. The command and the replay, which are one step, do no work for each name.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Container, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.coordinator import GroupCoordinatorFixture
from tests.support.groups.ports import group_ports
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.python_calls import count_all_calls
from tests.support.loops.yields import STEPS_PER_SLICE, IterationCounter, counted_slices, loop_iterations
from tests.support.waiting import eventually
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.groups.share.group import ShareGroup
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tidelog.protocol.steps import Steps, run_steps

MANY = 4_000
SLICES_OF_MANY = MANY // STEPS_PER_SLICE
CALLS_OF_A_COMMAND_MAX = MANY // 4
CLIENT = Client("c", "/127.0.0.1")
LEAVE = -1

Request: TypeAlias = ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
Response: TypeAlias = ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse
KINDS = [
    pytest.param(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        ),
        id="consumer",
    ),
    pytest.param(
        ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=("t",)), id="share"
    ),
]


def names(prefix: str) -> tuple[str, ...]:
    return tuple(f"{prefix}-{number}" for number in range(MANY))


def describable(topics: Iterable[str]) -> Steps[Container[str]]:
    return frozenset(topics)
    yield None


@dataclass
class WideServiceFixture:
    """A service over one partition; ten steps make a slice."""

    service: GroupService
    log: MemoryStateLog
    time: VirtualTime

    async def heartbeat(self, request: Request) -> Response:
        if isinstance(request, ShareGroupHeartbeatRequest):
            return await self.service.share_groups.heartbeat(CLIENT, request)
        result = self.service.consumer_groups.heartbeat(CLIENT, request, 1, describable)
        return await result if isinstance(result, Awaitable) else result

    def group(self) -> ConsumerGroup | ShareGroup:
        (shard,) = self.service._shards.active_shards()
        registry = shard.coordinator._groups
        group = registry.consumers.find("g") or registry.shares.find("g")
        assert group is not None
        return group

    def subscribed(self) -> frozenset[str]:
        return self.group().members["m"].subscribed_topic_names.as_set


@pytest.fixture
async def fixture() -> AsyncIterator[WideServiceFixture]:
    time, log, slices = VirtualTime(), MemoryStateLog(1), counted_slices()
    service = GroupService(group_config(), group_ports(log, time, time, slices))
    service.start()
    service.on_leadership(0)
    await loop_iterations(20)
    yield WideServiceFixture(service, log, time)
    await service.stop()


async def reloaded(fixture: WideServiceFixture) -> None:
    """Let the coordinator load its log again."""
    fixture.service.on_resignation(0)
    fixture.service.on_leadership(0)
    await eventually(lambda: bool(fixture.service._shards.active_shards()))


@pytest.mark.parametrize("request_", KINDS)
async def test_a_member_subscribes_to_many_topics_in_slices(
    fixture: WideServiceFixture, request_: Request
) -> None:
    turns = IterationCounter()
    joined = await fixture.heartbeat(replace(request_, subscribed_topic_names=names("a")))
    turns.stop()
    assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 2)
    assert turns.count >= SLICES_OF_MANY
    assert fixture.subscribed() == set(names("a"))
    changed = await fixture.heartbeat(
        replace(request_, member_epoch=2, subscribed_topic_names=(*names("b"), "b-1"))
    )
    assert fixture.group().epochs.group_epoch == 3
    assert changed.error_code == ErrorCode.NONE
    await reloaded(fixture)
    assert fixture.subscribed() == set(names("b"))
    assert fixture.group().epochs.group_epoch == 3


@pytest.mark.parametrize("request_", KINDS)
def test_the_step_that_changes_the_group_does_no_work_for_each_topic(request_: Request) -> None:
    fixture = GroupCoordinatorFixture()
    for prefix in ("a", "b"):
        request = replace(request_, subscribed_topic_names=names(prefix))
        if isinstance(request, ShareGroupHeartbeatRequest):
            shares = fixture.coordinator.shares
            assert shares.must_prepare(request)
            preparing = shares.prepare(CLIENT, request)
        else:
            consumers = fixture.coordinator.consumers
            assert consumers.must_prepare(request)
            preparing = consumers.prepare(CLIENT, request)
        prepared = run_steps(preparing)

        def change(request: Request = request, prepared=prepared) -> None:  # type: ignore[no-untyped-def]
            if isinstance(request, ShareGroupHeartbeatRequest):
                writes = fixture.coordinator.shares.heartbeat(CLIENT, request, fixture.now, prepared).writes
            else:
                heartbeat = fixture.coordinator.consumers.heartbeat
                writes = heartbeat(CLIENT, request, 1, fixture.now, prepared).writes
            assert writes.encoded is not None
            for offset, record in enumerate(writes.records):
                fixture.coordinator.replay(record, offset)

        _, calls = count_all_calls(change)
        assert calls < CALLS_OF_A_COMMAND_MAX


@pytest.mark.parametrize("request_", KINDS)
async def test_a_member_that_leaves_while_its_topics_are_prepared_is_unknown(
    fixture: WideServiceFixture, request_: Request
) -> None:
    epoch = (await fixture.heartbeat(request_)).member_epoch
    # Another member keeps the group.
    await fixture.heartbeat(replace(request_, member_id="other"))
    change = replace(request_, member_epoch=epoch, subscribed_topic_names=names("a"))
    changing = asyncio.ensure_future(fixture.heartbeat(change))
    await loop_iterations(3)
    await fixture.heartbeat(replace(request_, member_epoch=LEAVE))
    with pytest.raises(KafkaError) as error:
        await changing
    assert error.value.code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("request_", KINDS)
async def test_a_coordinator_that_moves_while_topics_are_prepared_refuses_the_heartbeat(
    fixture: WideServiceFixture, request_: Request
) -> None:
    joining = asyncio.ensure_future(fixture.heartbeat(replace(request_, subscribed_topic_names=names("a"))))
    await loop_iterations(3)
    batches = list(fixture.log.batches[0])
    fixture.service.on_resignation(0)
    with pytest.raises(KafkaError) as error:
        await joining
    assert error.value.code is ErrorCode.NOT_COORDINATOR
    assert fixture.log.batches[0] == batches


@pytest.mark.parametrize("request_", KINDS)
async def test_a_member_that_changes_while_its_topics_are_prepared_keeps_both_changes(
    fixture: WideServiceFixture, request_: Request
) -> None:
    epoch = (await fixture.heartbeat(request_)).member_epoch
    change = replace(request_, member_epoch=epoch, subscribed_topic_names=names("a"))
    changing = asyncio.ensure_future(fixture.heartbeat(change))
    await loop_iterations(3)
    await fixture.heartbeat(replace(request_, member_epoch=epoch, rack_id="r", subscribed_topic_names=("u",)))
    await changing
    await reloaded(fixture)
    assert fixture.subscribed() == set(names("a"))
    assert fixture.group().members["m"].rack_id == "r", "the record was encoded again"
