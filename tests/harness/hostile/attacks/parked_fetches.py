"""Requests that wait in a purgatory and name one partition many times (item 13)."""

from __future__ import annotations

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import FOREVER_MS, request_frame
from tests.harness.hostile.regular_client import TOPIC
from tests.support.batches.forged_batches import valid_batch
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from tidelog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def parked_fetch(repetitions: int, padding: bytes = b"", max_wait_ms: int = FOREVER_MS) -> bytes:
    """Return a Fetch that names one partition many times and waits for more bytes than available."""
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=2**30,
        topics=(FetchTopic(topic=TOPIC, partitions=(partition,) * repetitions),),
    )
    return request_frame(request, 12, padding=padding)


def _fetch_one_partition_many_times(context: AttackContext) -> None:
    frame = parked_fetch(context.size(4000, 1000))
    clients = [context.client() for _ in range(context.size(4))]
    context.begin()
    for client in clients:
        client.send(frame)
    context.hold()


def _fetch_and_leave(context: AttackContext) -> None:
    frame = parked_fetch(context.size(2000, 1000))
    context.begin()
    while not context.has_ended:
        client = context.client()
        client.send(frame)
        context.pause()
        client.close()


def _produce_to_one_partition_many_times(context: AttackContext) -> None:
    # Each append waits for the disk, so that the request is parked.
    context.target.create_topic("flushed", 1, {"flush.messages": "1"})
    records = bytes(valid_batch(1))
    data = (PartitionProduceData(index=0, records=records),) * context.size(15_000, 1000)
    request = ProduceRequest(
        acks=-1, timeout_ms=30_000, topic_data=(TopicProduceData(name="flushed", partition_data=data),)
    )
    frame = request_frame(request, 9)
    context.begin()
    context.repeat(frame)


def _delete_records_of_one_partition_many_times(context: AttackContext) -> None:
    partitions = (DeleteRecordsPartition(partition_index=1, offset=0),) * context.size(30_000, 1000)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=partitions)
    frame = request_frame(DeleteRecordsRequest(topics=(topic,), timeout_ms=30_000), 2)
    context.begin()
    context.repeat(frame)


ATTACKS = (
    Attack(
        name="parked-fetch-repeats-a-partition",
        item="13",
        actions="four Fetches that wait name one partition 4,000 times, while others produce to it",
        run=_fetch_one_partition_many_times,
    ),
    Attack(
        name="parked-fetch-of-a-closed-connection",
        item="13",
        actions="Fetches that wait name one partition 2,000 times, and their connections close at once",
        run=_fetch_and_leave,
    ),
    Attack(
        name="produce-repeats-a-partition",
        item="13",
        actions="a Produce with acks=all names one partition 15,000 times",
        run=_produce_to_one_partition_many_times,
    ),
    Attack(
        name="delete-records-repeats-a-partition",
        item="13",
        actions="a DeleteRecords names one partition 30,000 times",
        run=_delete_records_of_one_partition_many_times,
    ),
)
