"""Batches of very many small records that the broker must parse (item 17)."""

from __future__ import annotations

from collections.abc import Mapping

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import request_frame
from tests.support.batches.forged_batches import batch_of_least_records, now_ms
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

RECORDS_PER_BATCH = 499_999
BATCHES = 20
PROMISED_MS = 3_000_000
"""The difference between the maximum timestamp in the batch header and that of its records."""
SEARCHED_MS = 1_500_000
MAX_TIMESTAMP = -3
MEMORY_MIB = 256
DESCRIPTORS_KEPT = 3 * BATCHES + 8


def _produce_of(context: AttackContext, topic: str, batches: int) -> ProduceRequest:
    """Return a Produce with a batch for each partition of `topic`."""
    records = bytes(batch_of_least_records(context.size(RECORDS_PER_BATCH, 2000), later_ms=PROMISED_MS))
    data = tuple(PartitionProduceData(index=number, records=records) for number in range(batches))
    return ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=(TopicProduceData(name=topic, partition_data=data),)
    )


def _produce_repeatedly(context: AttackContext, topic: str, configs: Mapping[str, str]) -> None:
    batches = context.size(BATCHES, 2)
    context.target.create_topic(topic, batches, configs)
    frame = request_frame(_produce_of(context, topic, batches), 9)
    context.begin()
    context.repeat(frame)


def _produce_to_a_compacted_topic(context: AttackContext) -> None:
    _produce_repeatedly(context, "many-compacted", {"cleanup.policy": "compact"})


def _produce_to_another_codec(context: AttackContext) -> None:
    _produce_repeatedly(context, "many-recompressed", {"compression.type": "gzip"})


def _search_a_partition(context: AttackContext) -> None:
    context.target.create_topic("searched", 1)
    request = _produce_of(context, "searched", 1)
    for _ in range(context.size(BATCHES, 2)):
        _require_success(context, request)
    _search(context, "searched", 1)


def _search_many_partitions(context: AttackContext) -> None:
    count = context.size(BATCHES, 2)
    context.target.create_topic("searched-widely", count)
    _require_success(context, _produce_of(context, "searched-widely", count))
    _search(context, "searched-widely", count)


def _require_success(context: AttackContext, request: ProduceRequest) -> None:
    client = context.client()
    for result in client.send_request(request, 9, ProduceResponse).responses[0].partition_responses:
        context.expect(not result.error_code, f"batch refused: {ErrorCode(result.error_code).name}")
    client.close()


def _search(context: AttackContext, topic: str, partitions: int) -> None:
    """Search for a timestamp that only batch headers have, and for the latest record."""
    frames = [
        request_frame(
            ListOffsetsRequest(
                replica_id=-1,
                topics=(
                    ListOffsetsTopic(
                        name=topic,
                        partitions=tuple(
                            ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                            for number in range(partitions)
                        ),
                    ),
                ),
            ),
            7,
        )
        for timestamp in (now_ms() + SEARCHED_MS, MAX_TIMESTAMP)
    ]
    client = context.client()
    context.begin()
    for frame in frames:
        context.repeat(frame, client)


ATTACKS = (
    Attack(
        name="records-of-a-compacted-topic",
        item="17",
        actions="a Produce with 20 zstd batches of 499,999 records each for a compacted topic",
        run=_produce_to_a_compacted_topic,
        memory_mib=MEMORY_MIB,
        descriptors_kept=DESCRIPTORS_KEPT,
    ),
    Attack(
        name="records-to-recompress",
        item="17",
        actions="the same for a topic with another compression.type",
        run=_produce_to_another_codec,
        memory_mib=MEMORY_MIB,
        descriptors_kept=DESCRIPTORS_KEPT,
    ),
    Attack(
        name="search-by-timestamp-in-a-partition",
        item="17",
        actions="ListOffsets by timestamp over a partition of 20 such batches",
        run=_search_a_partition,
        memory_mib=MEMORY_MIB,
        descriptors_kept=DESCRIPTORS_KEPT,
    ),
    Attack(
        name="search-by-timestamp-in-20-partitions",
        item="17",
        actions="ListOffsets by timestamp over 20 partitions, each with such a batch",
        run=_search_many_partitions,
        memory_mib=MEMORY_MIB,
        descriptors_kept=DESCRIPTORS_KEPT,
    ),
)
