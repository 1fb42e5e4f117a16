"""The share groups of a node: states of partitions at the share coordinator, offsets, deletion."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from uuid import UUID

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.configs import group_config
from tests.support.groups.ports import group_ports
from tests.support.groups.share_states import MemoryPersister
from tests.support.groups.state_log import MemoryStateLog
from tests.support.loops.yields import STEPS_PER_SLICE, IterationCounter, counted_slices
from tests.support.metadata.images import image_after_records
from tests.support.waiting import eventually
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.coordinators.groups.service import GroupService
from tidelog.broker.coordinators.share.persister import SharePartitionKey, StateResult
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages import alter_share_group_offsets as alter
from tidelog.protocol.messages import delete_share_group_offsets as delete
from tidelog.protocol.messages import describe_share_group_offsets as describe
from tidelog.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tidelog.protocol.metadata_records.partition_record import PartitionRecord
from tidelog.protocol.metadata_records.topic_record import TopicRecord
from tidelog.protocol.steps import run_steps

TOPIC = UUID(int=7)
KEYS = [SharePartitionKey("g", TOPIC, index) for index in range(2)]
END_OFFSET = 100
ASSIGNMENT_INTERVAL_MS = 1_000
MANY = 1_000


class ShareServiceFixture:
    def __init__(self) -> None:
        self.log = MemoryStateLog(1)
        self.time = VirtualTime()
        self.persister = MemoryPersister()
        image = image_after_records(
            [
                TopicRecord(name="t", topic_id=TOPIC),
                *(
                    PartitionRecord(partition_id=index, topic_id=TOPIC, replicas=(1,), isr=(1,), leader=1)
                    for index in range(2)
                ),
            ]
        )
        self.slices = counted_slices()
        ports = group_ports(
            self.log, self.time, self.time, self.slices, persister=self.persister, image=image
        )
        self.groups = GroupService(group_config(), ports)
        self.shares = self.groups.share_groups

    async def lead(self) -> None:
        self.groups.on_leadership(0)
        await eventually(lambda: bool(self.groups._shards.active_shards()))

    async def heartbeat(self, epoch: int, group_id: str = "g") -> int:
        request = ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id="m",
            member_epoch=epoch,
            subscribed_topic_names=("t",) if epoch == 0 else None,
        )
        return (await self.shares.heartbeat(Client("c", "h"), request)).member_epoch

    def initialized(self, group_id: str = "g") -> int:
        [shard] = self.groups._shards.active_shards()
        partitions = shard.coordinator.shares.offsets.initialized(group_id)
        return sum(len(topic.partitions) for topic in partitions.values())

    async def alter(self, *topics: str, offset: int = 5) -> list[tuple[str, list[int]]]:
        request = alter.AlterShareGroupOffsetsRequest(
            group_id="g",
            topics=tuple(
                alter.AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=(
                        alter.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset),
                        alter.AlterShareGroupOffsetsRequestPartition(partition_index=2, start_offset=offset),
                    ),
                )
                for name in topics
            ),
        )
        response = await self.shares.alter_offsets(request)
        return [
            (topic.topic_name, [partition.error_code for partition in topic.partitions])
            for topic in response.responses
        ]

    async def delete(self, *topics: str) -> list[tuple[str, int]]:
        request = delete.DeleteShareGroupOffsetsRequest(
            group_id="g",
            topics=tuple(delete.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics),
        )
        response = await self.shares.delete_offsets(request)
        return [(topic.topic_name, topic.error_code) for topic in response.responses]

    async def describe(self, topics: tuple[str, ...] | None = None) -> list[tuple[str, int, int, int]]:
        requested = None
        if topics is not None:
            requested = tuple(
                describe.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(0,))
                for name in topics
            )
        [group] = await self.shares.offset_descriptions.describe(
            [describe.DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=requested)]
        )
        return [
            (topic.topic_name, partition.partition_index, partition.start_offset, partition.lag)
            for topic in group.topics
            for partition in topic.partitions
        ]


@pytest.fixture
async def fixture() -> AsyncIterator[ShareServiceFixture]:
    fixture = ShareServiceFixture()
    fixture.groups.start()
    await fixture.lead()
    yield fixture
    await fixture.groups.stop()


async def refusal_of(work: object) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        await work  # type: ignore[misc]
    return error.value.code


async def test_a_heartbeat_initializes_the_states_of_the_partitions(fixture: ShareServiceFixture) -> None:
    epoch = await fixture.heartbeat(0)
    await eventually(lambda: fixture.initialized() == 2)
    states = fixture.persister.states
    assert {key: states[key].start_offset for key in KEYS} == dict.fromkeys(KEYS, -1)
    fixture.time.pass_time(ASSIGNMENT_INTERVAL_MS)
    assert await fixture.heartbeat(epoch) == epoch + 1
    assert await fixture.describe() == [("t", 0, -1, -1), ("t", 1, -1, -1)]


async def test_a_state_that_cannot_be_initialized_is_tried_again(fixture: ShareServiceFixture) -> None:
    fixture.persister.failing = {KEYS[1]}
    epoch = await fixture.heartbeat(0)
    await eventually(lambda: fixture.initialized() == 1)
    fixture.persister.failing.clear()
    await fixture.heartbeat(epoch)
    await eventually(lambda: fixture.initialized() == 2)


async def test_offsets_are_changed_only_without_members(fixture: ShareServiceFixture) -> None:
    assert await fixture.alter("t", "missing") == [("t", [0, 3]), ("missing", [3, 3])]
    assert await fixture.describe() == [("t", 0, 5, END_OFFSET - 5)]
    assert await fixture.describe(("missing", "t")) == [
        ("missing", 0, -1, -1),
        ("t", 0, 5, END_OFFSET - 5),
    ]
    await fixture.heartbeat(0)
    assert await refusal_of(fixture.alter("t")) is ErrorCode.NON_EMPTY_GROUP
    assert await refusal_of(fixture.delete("t")) is ErrorCode.NON_EMPTY_GROUP


async def test_an_error_of_the_share_coordinator_is_that_of_the_partition(
    fixture: ShareServiceFixture,
) -> None:
    fixture.persister.failing = {KEYS[0]}
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await fixture.alter("t") == [("t", [code, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])]
    assert fixture.initialized() == 0
    fixture.persister.failing.clear()
    await fixture.alter("t")
    fixture.persister.failing = {KEYS[0]}
    assert await fixture.delete("t") == [("t", code)]
    fixture.persister.failing.clear()
    assert await fixture.delete("t") == [("t", ErrorCode.NONE)], "the deletion is completed later"
    assert fixture.persister.states == {}


async def test_offsets_of_many_partitions_are_described_in_slices(fixture: ShareServiceFixture) -> None:
    await fixture.alter("t")
    turns, before = IterationCounter(), fixture.slices.slice_count
    requests = [
        describe.DescribeShareGroupOffsetsRequestGroup(
            group_id="g",
            topics=tuple(
                describe.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=(*range(MANY), 0))
                for name in ("t", "missing")
            ),
        ),
        *(describe.DescribeShareGroupOffsetsRequestGroup(group_id=f"g{number}") for number in range(MANY)),
    ]
    group, *others = await fixture.shares.offset_descriptions.describe(requests)
    turns.stop()
    missing, existing = group.topics
    assert [len(missing.partitions), len(existing.partitions)] == [MANY + 1, MANY]
    assert [each.lag for each in existing.partitions[:2]] == [END_OFFSET - 5, -1]
    assert [other.group_id for other in others] == [f"g{number}" for number in range(MANY)]
    # Partitions are found, read, looked up and described; each is a step.
    slices_min = 6 * MANY // STEPS_PER_SLICE
    assert fixture.slices.slice_count - before >= slices_min
    assert turns.count >= slices_min - 10


async def test_deleted_offsets_are_forgotten(fixture: ShareServiceFixture) -> None:
    assert await refusal_of(fixture.delete("t")) is ErrorCode.GROUP_ID_NOT_FOUND
    await fixture.alter("t")
    assert await fixture.delete("t", "missing") == [
        ("missing", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("t", ErrorCode.NONE),
    ]
    assert await fixture.describe() == []
    assert await fixture.delete("t") == [("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]


async def test_a_group_is_deleted_with_its_states(fixture: ShareServiceFixture) -> None:
    epoch = await fixture.heartbeat(0)
    await eventually(lambda: fixture.initialized() == 2)
    [result] = await fixture.groups.delete_groups(["g"])
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    assert len(fixture.persister.states) == 2
    await fixture.heartbeat(-1)
    fixture.persister.failing = {KEYS[1]}
    [result] = await fixture.groups.delete_groups(["g"])
    assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    fixture.persister.failing.clear()
    [result] = await fixture.groups.delete_groups(["g"])
    assert (result.error_code, fixture.persister.states) == (ErrorCode.NONE, {})
    assert run_steps(fixture.groups.list_groups((), ())) == []
    assert await refusal_of(fixture.heartbeat(epoch)) is ErrorCode.GROUP_ID_NOT_FOUND


async def test_the_partitions_of_a_deleted_topic_are_forgotten(fixture: ShareServiceFixture) -> None:
    await fixture.alter("t")
    fixture.groups.on_topics_deleted({"t": TOPIC})
    assert fixture.initialized() == 0
    assert fixture.persister.calls == ["initialize"], "the share coordinator deletes the states itself"


async def test_share_groups_are_listed_by_type(fixture: ShareServiceFixture) -> None:
    await fixture.heartbeat(0)
    [listed] = run_steps(fixture.groups.list_groups((), ("Share",)))
    assert (listed.group_type, listed.protocol_type, listed.group_state) == ("share", "share", "Stable")
    assert run_steps(fixture.groups.list_groups((), ("classic", "consumer"))) == []


async def test_the_states_of_several_groups_are_deleted_at_the_same_time(
    fixture: ShareServiceFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["g", "h"]
    for name in names:
        await fixture.heartbeat(0, name)
    await eventually(lambda: all(fixture.initialized(name) == 2 for name in names))
    for name in names:
        await fixture.heartbeat(-1, name)
    delete_states, waiting = fixture.persister.delete, asyncio.Barrier(2)

    async def delete_together(keys: Sequence[SharePartitionKey]) -> list[StateResult]:
        await waiting.wait()
        return await delete_states(keys)

    monkeypatch.setattr(fixture.persister, "delete", delete_together)
    results = await fixture.groups.delete_groups(names)
    assert {result.group_id: result.error_code for result in results} == dict.fromkeys(names, 0)
    assert fixture.persister.states == {}
