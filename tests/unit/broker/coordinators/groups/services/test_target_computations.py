"""The target assignments of large groups are computed in tasks; the requester waits for its target."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Container, Iterable
from dataclasses import replace
from uuid import UUID

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.ports import group_ports
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import IterationCounter, counted_slices, loop_iterations
from tests.support.metadata.images import image_after_records
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.consumer import target_assignment
from tidelog.broker.coordinators.groups.consumer.group import ConsumerGroup
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.schema import MetadataRecord
from tidelog.protocol.steps import Steps

TOPICS = tuple(f"t{number}" for number in range(300))
PARTITIONS = 1_500
CLIENT = Client("c", "/127.0.0.1")
LEAVE = -1
JOIN = ConsumerGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    rebalance_timeout_ms=60_000,
    subscribed_topic_names=TOPICS,
    topic_partitions=(),
)


class LargeTopicsFixture:
    """A service over one partition, and topics with many partitions; ten steps make a slice."""

    def __init__(self) -> None:
        records: list[MetadataRecord] = []
        for number, name in enumerate(TOPICS):
            records.append(TopicRecord(name=name, topic_id=UUID(int=number + 1)))
            for index in range(PARTITIONS // len(TOPICS)):
                partition = PartitionRecord(
                    partition_id=index, topic_id=UUID(int=number + 1), replicas=(1,), isr=(1,), leader=1
                )
                records.append(partition)
        self.log, time = MemoryStateLog(1), VirtualTime()
        image = image_after_records(records)
        self.service = GroupService(
            group_config(), group_ports(self.log, time, time, counted_slices(), image=image)
        )

    async def heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        result = self.service.consumer_groups.heartbeat(CLIENT, request, 1, describable)
        return await result if isinstance(result, Awaitable) else result

    def group(self) -> ConsumerGroup:
        (shard,) = self.service._shards.active_shards()
        group = shard.coordinator._groups.consumers.find("g")
        assert group is not None
        return group


def describable(topics: Iterable[str]) -> Steps[Container[str]]:
    return frozenset(topics)
    yield None


def assigned_count(response: ConsumerGroupHeartbeatResponse) -> int:
    assert response.assignment is not None
    return sum(len(topic.partitions) for topic in response.assignment.topic_partitions)


@pytest.fixture
async def fixture() -> AsyncIterator[LargeTopicsFixture]:
    fixture = LargeTopicsFixture()
    fixture.service.start()
    fixture.service.on_leadership(0)
    await loop_iterations(20)
    yield fixture
    await fixture.service.stop()


async def test_the_heartbeat_that_starts_a_computation_gets_its_target_and_others_are_served_meanwhile(
    fixture: LargeTopicsFixture,
) -> None:
    turns = IterationCounter()
    joining = asyncio.ensure_future(fixture.heartbeat(JOIN))
    await loop_iterations(3)
    other = await fixture.heartbeat(replace(JOIN, member_id="other"))
    assert (other.member_epoch, assigned_count(other)) == (1, 0), "the empty target of a new group"
    joined = await joining
    turns.stop()
    assert (joined.member_epoch, assigned_count(joined)) == (2, PARTITIONS)
    assert turns.count > len(TOPICS) // 10
    assert "other" not in fixture.group().target


async def test_a_member_that_leaves_meanwhile_gets_the_last_target(fixture: LargeTopicsFixture) -> None:
    joining = asyncio.ensure_future(fixture.heartbeat(JOIN))
    await loop_iterations(3)
    await fixture.heartbeat(replace(JOIN, member_id="other"))
    await fixture.heartbeat(replace(JOIN, member_epoch=LEAVE))
    joined = await joining
    assert (joined.member_epoch, assigned_count(joined)) == (1, 0)
    with pytest.raises(KafkaError) as error:
        await fixture.heartbeat(
            ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=joined.member_epoch)
        )
    assert error.value.code is ErrorCode.UNKNOWN_MEMBER_ID


async def test_a_coordinator_that_moves_meanwhile_writes_no_target_and_the_next_one_computes_it(
    fixture: LargeTopicsFixture,
) -> None:
    joining = asyncio.ensure_future(fixture.heartbeat(JOIN))
    await loop_iterations(3)
    batches = len(fixture.log.batches[0])
    fixture.service.on_resignation(0)
    assert (await joining).member_epoch == 1, "its records are committed"
    assert len(fixture.log.batches[0]) == batches
    fixture.service.on_leadership(0)
    await loop_iterations(20)
    response = await fixture.heartbeat(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1, topic_partitions=())
    )
    assert (response.member_epoch, assigned_count(response)) == (2, PARTITIONS)


async def test_a_defect_of_an_assignor_is_logged_and_the_next_heartbeat_computes_again(
    fixture: LargeTopicsFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*arguments: object) -> object:
        raise ArithmeticError("the test lets the assignor fail")
        yield None

    with monkeypatch.context() as patch, caplog.at_level(logging.ERROR):
        patch.setattr(target_assignment, "compute_target", fail)
        assert (await fixture.heartbeat(JOIN)).member_epoch == 1
        await loop_iterations(5)
    assert "A task of the coordinator of groups failed" in caplog.text
    response = await fixture.heartbeat(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1, topic_partitions=())
    )
    assert (response.member_epoch, assigned_count(response)) == (2, PARTITIONS)
