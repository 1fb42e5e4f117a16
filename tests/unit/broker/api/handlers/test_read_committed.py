"""Fetches with read_committed: their end, and the events that complete them."""

from __future__ import annotations

import asyncio
from typing import cast

from tests.support.loops.yields import loop_iterations
from tests.support.messages.request_contexts import immediate
from tests.support.replicas.replica_manager import FakeRequest
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.transactions.transactional_node import (
    T0,
    TransactionalNode,
    request_context,
    run_until_response,
)
from tidelog.broker.api.handlers.list_offsets import ListOffsetsHandler
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.fetch import FetchResponse, PartitionData
from tidelog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.steps import run_steps

LATEST = -1
WAIT_MS = 500


def partition_data(request: FakeRequest) -> PartitionData:
    return cast(FetchResponse, request.response).responses[0].partitions[0]


def offsets(response: PartitionData) -> list[int]:
    return [header.base_offset for _, header in iterate_headers(bytes(response.records or b""))]


def stable_end(node: TransactionalNode) -> int:
    """Return the end offset that ListOffsets reports for read_committed."""
    requested = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=1, topics=(ListOffsetsTopic(name="t", partitions=(requested,)),)
    )
    response = run_steps(
        ListOffsetsHandler(node.replicas.manager, Slices(node.clock), ALLOW_EVERYTHING).handle(
            request_context(ApiKey.LIST_OFFSETS, 7), request
        )
    )
    return immediate(response).topics[0].partitions[0].offset


async def test_the_end_of_a_transaction_completes_waiting_requests() -> None:
    node = await TransactionalNode().start()
    await node.produce_one()
    waiting = node.fetch(max_wait_ms=WAIT_MS)
    await node.produce_one(sequence=1)
    assert waiting.is_open, "more of the transaction is nothing to read yet"
    await node.end(T0)
    partition = partition_data(waiting)
    assert offsets(partition) == [0, 1, 2]
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
    await node.stop()


async def test_an_unreplicated_marker_does_not_advance_the_last_stable_offset() -> None:
    node = await TransactionalNode(isr=(1, 2)).start()
    partition = node.partition()

    def follow() -> None:
        partition.record_follower_fetch(2, partition.log.log_end_offset, 0, 102)

    producing = node.send()
    await loop_iterations()
    follow()
    await run_until_response(producing)
    waiting = node.fetch(max_wait_ms=WAIT_MS)
    ending = asyncio.ensure_future(node.end(T0, commit=False))
    await loop_iterations()
    assert waiting.is_open and stable_end(node) == 0
    assert offsets(partition_data(node.fetch(committed=False))) == [0], "up to the high watermark"
    follow()
    assert await ending == {T0: ErrorCode.NONE}
    response = partition_data(waiting)
    assert offsets(response) == [0, 1]
    assert [(one.producer_id, one.first_offset) for one in response.aborted_transactions or ()] == [(7, 0)]
    assert stable_end(node) == 2
    await node.stop()


async def test_an_open_transaction_holds_the_last_stable_offset_below_later_ended_ones() -> None:
    node = await TransactionalNode().start()
    await node.produce_one()
    await node.produce_one(producer_id=8)
    waiting = node.fetch(max_wait_ms=WAIT_MS)
    await node.end(T0, producer_id=8)
    assert waiting.is_open and stable_end(node) == 0
    await node.end(T0)
    assert offsets(partition_data(waiting)) == [0, 1, 2, 3]
    assert stable_end(node) == 4
    await node.stop()
