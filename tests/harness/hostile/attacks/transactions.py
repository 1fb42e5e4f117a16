"""Unlimited producer ids and transactional ids (review)."""

from __future__ import annotations

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import Scene
from tests.harness.hostile.frames import framed
from tests.harness.hostile.target import PLAIN_TOPIC
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest
from tidelog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tidelog.protocol.record import BatchBuilder, BatchProducer

PIPELINED = 50


def _request_producer_ids(scene: Scene) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    frame = framed(request, 4)
    client = scene.client()
    scene.begin()
    scene.repeat(frame, client)


def _request_with_many_transactional_ids(scene: Scene) -> None:
    """Initialize new ids; each needs a record and is kept for a week."""
    client = scene.client()
    scene.begin()
    number = 0
    while not scene.is_over:
        request = InitProducerIdRequest(
            transactional_id=f"flood-{number}",
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        if scene.exchange(client, framed(request, 4)) is None:
            break
        number += 1
    scene.note(f"{number:,} transactional ids")
    frame = framed(ListTransactionsRequest(), 1)
    for _ in range(5):
        scene.exchange(client, frame)


def _produce_with_many_producer_ids(scene: Scene) -> None:
    """Produce batches of producers that are new to the partition."""
    client = scene.client()
    scene.begin()
    number = 0
    while not scene.is_over:
        frames = []
        for producer_id in range(number, number + PIPELINED):
            builder = BatchBuilder(
                producer=BatchProducer(producer_id=producer_id, producer_epoch=0, base_sequence=0)
            )
            builder.append(-1, None, b"x")
            data = (PartitionProduceData(index=0, records=bytes(builder.build())),)
            topic = TopicProduceData(name=PLAIN_TOPIC, partition_data=data)
            frames.append(framed(ProduceRequest(acks=1, timeout_ms=30_000, topic_data=(topic,)), 9))
        client.send(b"".join(frames))
        for _ in frames:
            if client.receive() is None:
                return
        number += PIPELINED
    scene.note(f"{number:,} producer ids")


def _add_many_partitions(scene: Scene) -> None:
    client = scene.client()
    scene.target.create_topic("transactional", 500)
    init = InitProducerIdRequest(
        transactional_id="wide", transaction_timeout_ms=2_000, producer_id=-1, producer_epoch=-1
    )
    producer = client.ask(init, 4, InitProducerIdResponse)
    topics = (
        AddPartitionsToTxnTopic(name="transactional", partitions=tuple(range(500)) * scene.size(80)),
        AddPartitionsToTxnTopic(name="unknown", partitions=tuple(range(scene.size(40_000, 100)))),
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="wide",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    frame = framed(request, 3)
    scene.begin()
    scene.repeat(frame, client)


ATTACKS = (
    Attack(
        name="producer-ids-without-end",
        item="review",
        does="InitProducerId without a transactional id, repeatedly",
        run=_request_producer_ids,
    ),
    Attack(
        name="transactional-ids-without-end",
        item="review",
        does="InitProducerId with one new transactional id after the other, then lists them",
        run=_request_with_many_transactional_ids,
    ),
    Attack(
        name="producers-of-a-partition-without-end",
        item="review",
        does="batches of producer ids that the partition has never seen",
        run=_produce_with_many_producer_ids,
    ),
    Attack(
        name="add-many-partitions-to-a-transaction",
        item="review",
        does="AddPartitionsToTxn with 80,000 partitions, most of them repeated or unknown",
        run=_add_many_partitions,
        memory_mib=128,
        descriptors_kept=1600,
        is_short=False,
    ),
)
