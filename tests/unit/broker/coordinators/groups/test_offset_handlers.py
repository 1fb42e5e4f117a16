"""OffsetCommit, OffsetFetch and OffsetDelete in every version."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from uuid import UUID

import pytest

from tests.support.groups.group_handlers import (
    TOPIC_ID,
    UNKNOWN_ID,
    GroupBroker,
    commit_request,
    fetch_request,
    topic,
)
from tests.support.loops.yields import loop_iterations
from tests.support.metadata.images import broker_registration_record, image_after_records
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import run_steps


@pytest.fixture
async def broker() -> AsyncIterator[GroupBroker]:
    broker = GroupBroker()
    await loop_iterations(20)
    assert broker.service._shards.active_shards()
    yield broker
    await broker.service.stop()


@pytest.mark.parametrize("version", range(2, 11))
async def test_offsets_are_committed_in_every_version_for_partitions_that_exist(
    broker: GroupBroker, version: int
) -> None:
    request = commit_request(version, ("t", TOPIC_ID, 0), ("u", UNKNOWN_ID, 0), ("t", TOPIC_ID, 7))
    response = await broker.send_request(request, version)
    unknown_group = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    errors = [partition.error_code for topic in response.topics for partition in topic.partitions]
    assert errors == [0, unknown_group, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [topic.topic_id for topic in response.topics] == [topic.topic_id for topic in request.topics]
    requested = OffsetFetchRequestGroup(group_id="g", topics=None)
    (fetched,) = run_steps(await broker.service.fetch_offsets((requested,), False))
    (each,) = fetched.topics
    assert (each.name, each.topic_id, each.partitions[0].committed_offset) == ("t", TOPIC_ID, 5)
    assert each.partitions[0].committed_leader_epoch == (3 if version >= 6 else -1)


async def test_an_error_of_the_whole_commit_is_set_for_every_existing_partition(broker: GroupBroker) -> None:
    request = commit_request(9, ("t", TOPIC_ID, 0), ("u", UNKNOWN_ID, 0))
    response = await broker.send_request(replace(request, generation_id_or_member_epoch=3, member_id="m"), 9)
    errors = [partition.error_code for topic in response.topics for partition in topic.partitions]
    assert errors == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_commit_without_existing_partitions_does_not_reach_the_coordinator(
    broker: GroupBroker,
) -> None:
    response = await broker.send_request(commit_request(9, ("u", UNKNOWN_ID, 0)), 9)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert broker.log.batches == {0: []}


@pytest.mark.parametrize("version", range(1, 11))
async def test_offsets_are_fetched_in_every_version(broker: GroupBroker, version: int) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    response = await broker.send_request(fetch_request(version), version)
    topics = response.topics if version < 8 else response.groups[0].topics
    ((name, topic_id, partitions),) = (
        (topic.name, getattr(topic, "topic_id", ZERO_UUID), topic.partitions) for topic in topics
    )
    assert (name, topic_id) == (("", TOPIC_ID) if version >= 10 else ("t", ZERO_UUID))
    assert [(p.partition_index, p.committed_offset, p.metadata) for p in partitions] == [
        (0, 5, "m"),
        (1, -1, ""),
    ]
    if version >= 8:
        assert [p.committed_offset for p in response.groups[1].topics[0].partitions] == [-1, -1]


@pytest.mark.parametrize("version", range(2, 11))
async def test_all_offsets_are_fetched_in_every_version_that_can_ask_for_them(
    broker: GroupBroker, version: int
) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 1)), 9)
    response = await broker.send_request(fetch_request(version, everything=True), version)
    topics = response.topics if version < 8 else response.groups[0].topics
    assert [[p.partition_index for p in topic.partitions] for topic in topics] == [[1]]


@pytest.mark.parametrize("version", [7, 8, 10])
async def test_repeated_partitions_are_returned_once(broker: GroupBroker, version: int) -> None:
    request = fetch_request(version)
    if version < 8:
        (requested,) = request.topics or ()
        repeated = replace(requested, partition_indexes=(1, 0) * 1_000)
        request = replace(request, topics=(repeated, repeated))
    else:
        (asked_by_group,) = request.groups[0].topics or ()
        group = replace(
            request.groups[0], topics=(replace(asked_by_group, partition_indexes=(1, 0) * 1_000),) * 2
        )
        request = replace(request, groups=(group, group))
    response = await broker.send_request(request, version)
    (topics,) = (response.topics,) if version < 8 else [each.topics for each in response.groups]
    assert [[p.partition_index for p in topic.partitions] for topic in topics] == [[1, 0]]


async def test_an_unknown_topic_id_is_reported_for_each_partition(broker: GroupBroker) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    requested = tuple(
        OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=(0,))
        for topic_id in (UNKNOWN_ID, TOPIC_ID)
    )
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=requested),))
    response = await broker.send_request(request, 10)
    assert [
        (topic.topic_id, topic.partitions[0].error_code, topic.partitions[0].committed_offset)
        for topic in response.groups[0].topics
    ] == [(UNKNOWN_ID, ErrorCode.UNKNOWN_TOPIC_ID, -1), (TOPIC_ID, 0, 5)]


async def test_an_offset_of_a_topic_that_was_recreated_is_not_returned_by_id(broker: GroupBroker) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    new_id = UUID(int=99)
    broker.image = image_after_records([broker_registration_record(1), *topic("t", new_id, 2)])
    requested = (OffsetFetchRequestTopics(topic_id=new_id, partition_indexes=(0,)),)
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=requested),))
    response = await broker.send_request(request, 10)
    assert response.groups[0].topics[0].partitions[0].committed_offset == -1


@pytest.mark.parametrize("version", range(1, 10))
async def test_an_offset_of_a_topic_that_was_recreated_is_not_returned_by_name(
    broker: GroupBroker, version: int
) -> None:
    """No coordinator removed the old topic's offsets; a consumer of the new topic must not skip records."""
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    broker.image = image_after_records([broker_registration_record(1), *topic("t", UUID(int=99), 2)])
    response = await broker.send_request(fetch_request(version), version)
    topics = response.topics if version < 8 else response.groups[0].topics
    assert [p.committed_offset for each in topics for p in each.partitions] == [-1, -1]
    if version >= 2:
        response = await broker.send_request(fetch_request(version, everything=True), version)
        assert (response.topics if version < 8 else response.groups[0].topics) == ()
    await broker.send_request(commit_request(9, ("t", ZERO_UUID, 1)), 9)
    response = await broker.send_request(fetch_request(version), version)
    topics = response.topics if version < 8 else response.groups[0].topics
    assert [p.committed_offset for each in topics for p in each.partitions] == [-1, 5]
    if version >= 2:
        response = await broker.send_request(fetch_request(version, everything=True), version)
        topics = response.topics if version < 8 else response.groups[0].topics
        assert [[p.partition_index for p in each.partitions] for each in topics] == [[1]]


async def test_offsets_are_deleted_for_partitions_that_exist(broker: GroupBroker) -> None:
    await broker.send_request(commit_request(9, ("t", TOPIC_ID, 0)), 9)
    partitions = tuple(OffsetDeleteRequestPartition(partition_index=index) for index in (0, 9))
    request = OffsetDeleteRequest(
        group_id="g",
        topics=(
            OffsetDeleteRequestTopic(name="t", partitions=partitions),
            OffsetDeleteRequestTopic(name="u", partitions=partitions),
        ),
    )
    response = await broker.send_request(request, 0)
    unknown_group = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [[p.error_code for p in topic.partitions] for topic in response.topics] == [
        [0, unknown_group],
        [unknown_group, unknown_group],
    ]
    with pytest.raises(KafkaError) as raised:
        await broker.send_request(replace(request, group_id="unknown"), 0)
    assert raised.value.code is ErrorCode.GROUP_ID_NOT_FOUND
