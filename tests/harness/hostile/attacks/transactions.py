"""Unlimited producer ids and transactional ids (review)."""

from __future__ import annotations

from tests.harness.hostile.attack import Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import produce_frame, request_frame
from tests.harness.hostile.target import PLAIN_TOPIC
from tidelog.protocol.batch_builder import BatchBuilder, BatchProducer
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from tidelog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from tidelog.protocol.messages.list_transactions import ListTransactionsRequest

PIPELINED = 50


def _request_producer_ids(context: AttackContext) -> None:
    request = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    frame = request_frame(request, 4)
    client = context.client()
    context.begin()
    context.repeat(frame, client)


def _request_with_many_transactional_ids(context: AttackContext) -> None:
    """Initialize new ids; each needs a record and is kept for a week."""
    client = context.client()
    context.begin()
    number = 0
    while not context.has_ended:
        request = InitProducerIdRequest(
            transactional_id=f"flood-{number}",
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        if context.exchange(client, request_frame(request, 4)) is None:
            break
        number += 1
    context.note(f"{number:,} transactional ids")
    frame = request_frame(ListTransactionsRequest(), 1)
    for _ in range(5):
        context.exchange(client, frame)


def _produce_with_many_producer_ids(context: AttackContext) -> None:
    """Produce batches of producers that are new to the partition."""
    client = context.client()
    context.begin()
    number = 0
    while not context.has_ended:
        frames = []
        for producer_id in range(number, number + PIPELINED):
            builder = BatchBuilder(
                producer=BatchProducer(producer_id=producer_id, producer_epoch=0, base_sequence=0)
            )
            builder.append(-1, None, b"x")
            frames.append(produce_frame(PLAIN_TOPIC, bytes(builder.build())))
        client.send(b"".join(frames))
        for _ in frames:
            if client.receive() is None:
                return
        number += PIPELINED
    context.note(f"{number:,} producer ids")


def _add_many_partitions(context: AttackContext) -> None:
    client = context.client()
    context.target.create_topic("transactional", 500)
    init = InitProducerIdRequest(
        transactional_id="wide", transaction_timeout_ms=2_000, producer_id=-1, producer_epoch=-1
    )
    producer = client.send_request(init, 4, InitProducerIdResponse)
    topics = (
        AddPartitionsToTxnTopic(name="transactional", partitions=tuple(range(500)) * context.size(80)),
        AddPartitionsToTxnTopic(name="unknown", partitions=tuple(range(context.size(40_000, 100)))),
    )
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="wide",
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=topics,
    )
    frame = request_frame(request, 3)
    context.begin()
    context.repeat(frame, client)


ATTACKS = (
    Attack(
        name="producer-ids-without-end",
        item="review",
        actions="InitProducerId without a transactional id, repeatedly",
        run=_request_producer_ids,
    ),
    Attack(
        name="transactional-ids-without-end",
        item="review",
        actions="InitProducerId with one new transactional id after the other, then lists them",
        run=_request_with_many_transactional_ids,
    ),
    Attack(
        name="producers-of-a-partition-without-end",
        item="review",
        actions="batches of producer ids that the partition has never seen",
        run=_produce_with_many_producer_ids,
    ),
    Attack(
        name="add-many-partitions-to-a-transaction",
        item="review",
        actions="AddPartitionsToTxn with 80,000 partitions, most of them repeated or unknown",
        run=_add_many_partitions,
        memory_mib=128,
        descriptors_kept=1600,
        is_short=False,
    ),
)
