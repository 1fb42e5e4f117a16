"""Valid requests with tens of thousands of elements, as listed in the issue (item 20)."""

from __future__ import annotations

from functools import partial

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import request_frame
from tests.support.batches.forged_batches import valid_batch
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

CREATED_PARTITIONS = 2000
PARTITIONS_MAX = 9900
"""Almost the maximum that one request may create."""


def _fetch_offsets_of_many_groups(context: AttackContext) -> None:
    topics = (OffsetFetchRequestTopics(name="plain", partition_indexes=(0,)),)
    groups = tuple(
        OffsetFetchRequestGroup(group_id=f"group-{number}", topics=topics)
        for number in range(context.size(40_000, 100))
    )
    frame = request_frame(OffsetFetchRequest(groups=groups), 8)
    context.begin()
    context.repeat(frame)


def _produce_to_many_partitions(context: AttackContext) -> None:
    records = bytes(valid_batch(1))
    data = tuple(
        PartitionProduceData(index=number, records=records) for number in range(context.size(40_000, 100))
    )
    topic = TopicProduceData(name="plain", partition_data=data)
    frame = request_frame(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=(topic,)), 9)
    context.begin()
    context.repeat(frame)


def _describe_many_topics(context: AttackContext) -> None:
    topics = tuple(
        MetadataRequestTopic(name=f"unknown-{number}") for number in range(context.size(100_000, 100))
    )
    frame = request_frame(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
    context.begin()
    context.repeat(frame)


def _describe_partitions_on_many_connections(context: AttackContext) -> None:
    """Each response alone is of moderate size; the attacker reads all of them."""
    topic = CreatableTopic(name="wide", num_partitions=context.size(PARTITIONS_MAX, 10), replication_factor=1)
    request = CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)
    result = context.client().send_request(request, 7, CreateTopicsResponse).topics[0]
    context.expect(not result.error_code, f"not created: {ErrorCode(result.error_code).name}")
    clients = [context.client() for _ in range(context.size(1_000, 5))]
    frame = request_frame(MetadataRequest(topics=None), 9)
    context.begin()
    for client in clients:
        client.send(frame)
    size = sum(len(client.receive() or b"") for client in clients)
    context.note(f"{len(clients)} connections, {size:,} bytes of responses")


def _create_many_partitions(count: int, context: AttackContext) -> None:
    client = context.client()
    partitions = context.size(count, 10)
    context.begin()
    number = 0
    while True:
        name = f"many-{number}"
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=(topic,), timeout_ms=30_000)
        result = client.send_request(request, 7, CreateTopicsResponse).topics[0]
        context.expect(not result.error_code, f"not created: {ErrorCode(result.error_code).name}")
        delete = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=30_000)
        context.exchange(client, request_frame(delete, 6))
        number += 1
        if context.has_ended:
            break
    context.note(f"{number} topics of {partitions} partitions created and deleted")


ATTACKS = (
    Attack(
        name="offset-fetch-of-40000-groups",
        item="20",
        actions="an OffsetFetch for 40,000 groups",
        run=_fetch_offsets_of_many_groups,
        memory_mib=128,
    ),
    Attack(
        name="produce-to-40000-partitions",
        item="20",
        actions="a Produce for 40,000 partitions that do not exist",
        run=_produce_to_many_partitions,
        memory_mib=128,
    ),
    Attack(
        name="metadata-of-100000-topics",
        item="20",
        actions="a Metadata for 100,000 names that do not exist",
        run=_describe_many_topics,
        memory_mib=128,
    ),
    Attack(
        name="metadata-on-1000-connections",
        item="review",
        actions="1,000 connections request metadata of 9,900 partitions at the same time",
        run=_describe_partitions_on_many_connections,
        memory_mib=320,
        memory_kept_mib=256,
    ),
    Attack(
        name="create-2000-partitions",
        item="20",
        actions="topics of 2,000 partitions are created and deleted",
        run=partial(_create_many_partitions, CREATED_PARTITIONS),
        memory_mib=128,
        memory_kept_mib=128,
        is_short=False,
    ),
    Attack(
        name="create-9900-partitions",
        item="20",
        actions="topics of 9,900 partitions, nearly as many as a request may create, are created and deleted",
        run=partial(_create_many_partitions, PARTITIONS_MAX),
        memory_mib=256,
        memory_kept_mib=256,
        is_short=False,
    ),
)
