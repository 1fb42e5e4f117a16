"""WriteTxnMarkers: the end of transactions, replication, and repeated markers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.logs.partition_logs import all_records
from tests.support.loops.yields import loop_iterations
from tests.support.security.authorizers import ALLOW_EVERYTHING
from tests.support.transactions.transactional_node import (
    OFFSETS,
    PRODUCER,
    REQUEST_TIMEOUT_MS,
    T0,
    TransactionalNode,
    request_context,
)
from tidelog.broker.api.handlers import write_txn_markers
from tidelog.broker.api.handlers.describe_producers import DescribeProducersHandler
from tidelog.broker.partitions.delayed_produce import DelayedProduce, PartitionAppend
from tidelog.protocol.batch import iterate_headers
from tidelog.protocol.control_batch import ControlRecordType, control_type
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from tidelog.protocol.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.steps import run_steps

T1 = TopicPartition("t", 1)
DONE = ErrorCode.NONE


@pytest.fixture
async def node() -> AsyncIterator[TransactionalNode]:
    node = await TransactionalNode().start()
    yield node
    await node.stop()


async def two_replicas() -> TransactionalNode:
    return await TransactionalNode(isr=(1, 2), min_insync_replicas="2").start()


def fetch_as_follower(node: TransactionalNode, topic_partition: TopicPartition) -> None:
    """Let the follower fetch the whole log, and acknowledge it with its next fetch."""
    partition = node.partition(topic_partition)
    partition.record_follower_fetch(2, partition.log.log_end_offset, 0, 102)


def markers_in(node: TransactionalNode, topic_partition: TopicPartition) -> list[ControlRecordType]:
    log = node.partition(topic_partition).log
    markers = []
    for record in all_records(log):
        data = log.read(record.offset, 1 << 20, at_least_one=True).records
        assert data is not None
        _, header = next(iterate_headers(data.read()))
        if header.is_control:
            markers.append(ControlRecordType(control_type(record.key)))
    return markers


async def test_a_marker_ends_the_transaction_in_each_partition(node: TransactionalNode) -> None:
    await node.produce(0, 1)
    assert await node.end(T0, T1, commit=False) == {T0: DONE, T1: DONE}
    assert (node.last_stable_offset(T0), node.last_stable_offset(T1)) == (2, 2)
    assert markers_in(node, T0) == [ControlRecordType.ABORT]
    assert [one.first_offset for one in node.partition().log.segments.active.txn_index.entries()] == [0]


async def test_a_repeated_marker_has_no_effect(node: TransactionalNode) -> None:
    await node.produce_one()
    assert await node.end(T0) == await node.end(T0) == {T0: DONE}
    assert node.last_stable_offset() == 3
    # A later coordinator of the same transaction does not, either.
    assert await node.end(T0, coordinator_epoch=4) == {T0: DONE}


async def test_a_marker_for_a_repeated_partition_is_written_once(node: TransactionalNode) -> None:
    await node.produce_one()
    assert await node.end(T0, T0, T0) == {T0: DONE}
    assert markers_in(node, T0) == [ControlRecordType.COMMIT]


async def test_a_marker_with_an_older_coordinator_epoch_is_fenced(node: TransactionalNode) -> None:
    await node.end(T0, coordinator_epoch=4)
    await node.produce_one(sequence=0)
    assert await node.end(T0, coordinator_epoch=3) == {T0: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert node.last_stable_offset() == 1, "its transaction is still open"


async def test_a_marker_with_an_older_producer_epoch_is_refused(node: TransactionalNode) -> None:
    await node.produce_one(epoch=3)
    assert await node.end(T0, epoch=2) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}


async def test_with_transaction_version_2_a_marker_must_have_a_higher_epoch(node: TransactionalNode) -> None:
    await node.produce_one(epoch=3)
    refused = await node.end(T0, epoch=3, transaction_version=2)
    assert refused == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert await node.end(T0, epoch=4, transaction_version=2) == {T0: DONE}
    assert await node.end(T0, epoch=4, transaction_version=2) == {T0: DONE}, "when it is sent again"


async def test_partitions_with_another_leader_are_refused(node: TransactionalNode) -> None:
    elsewhere, unknown = TopicPartition("__transaction_state", 0), TopicPartition("nowhere", 0)
    assert await node.end(T0, elsewhere, unknown) == {
        T0: DONE,
        elsewhere: ErrorCode.NOT_LEADER_OR_FOLLOWER,
        unknown: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_results_are_grouped_by_producer(node: TransactionalNode) -> None:
    await node.produce_one()
    await node.produce_one(producer_id=8)
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=(0,))
    results = await node.write_markers(
        *(
            WritableTxnMarker(producer_id=producer_id, transaction_result=True, topics=(topic,))
            for producer_id in (PRODUCER, 8)
        )
    )
    assert results == {T0: DONE}
    assert node.last_stable_offset() == 4
    assert await node.write_markers() == {}


async def test_the_response_waits_for_the_replication_of_the_marker() -> None:
    node = await two_replicas()
    ending = asyncio.ensure_future(node.end(T0))
    await loop_iterations()
    assert not ending.done() and node.last_stable_offset() == 0
    fetch_as_follower(node, T0)
    assert await ending == {T0: DONE}
    await node.stop()


async def test_markers_of_many_producers_in_a_partition_wait_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting: list[int] = []

    def waits(delay_ms: int, appended: list[PartitionAppend], *callbacks: Any) -> DelayedProduce:
        waiting.append(len(appended))
        return DelayedProduce(delay_ms, appended, *callbacks)

    monkeypatch.setattr(write_txn_markers, "DelayedProduce", waits)
    node = await two_replicas()
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=(0, 1))
    markers = [WritableTxnMarker(producer_id=one, topics=(topic,)) for one in range(500)]
    ending = asyncio.ensure_future(node.write_markers(*markers))
    await loop_iterations()
    assert waiting == [2], "one for each partition"
    fetch_as_follower(node, T0)
    assert not ending.done()
    fetch_as_follower(node, T1)
    assert await ending == {T0: DONE, T1: DONE}
    await node.stop()


async def test_a_marker_that_is_not_replicated_in_time_is_timed_out() -> None:
    node = await two_replicas()
    ending = asyncio.ensure_future(node.end(T0))
    await loop_iterations()
    node.clock.now_ms += REQUEST_TIMEOUT_MS
    node.timers.advance()
    assert await ending == {T0: ErrorCode.REQUEST_TIMED_OUT}
    await node.stop()


async def test_no_marker_is_written_below_min_insync_replicas() -> None:
    node = await two_replicas()
    topic_id = node.replicas.image.topics_by_name["t"].id
    node.replicas.replay(PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(1,)))
    assert await node.end(T0) == {T0: ErrorCode.NOT_ENOUGH_REPLICAS}
    assert node.partition().log.log_end_offset == 0
    await node.stop()


async def test_describe_producers_shows_a_hanging_transaction_that_can_be_aborted(
    node: TransactionalNode,
) -> None:
    """As `kafka-transactions abort` does: a marker of version 1 has the values of DescribeProducers."""
    await node.end(T0, coordinator_epoch=6)
    await node.produce_one()
    handler = DescribeProducersHandler(node.replicas.manager, ALLOW_EVERYTHING)
    request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0,)),))

    def describe_producer() -> tuple[int, int, int, int]:
        context = request_context(ApiKey.DESCRIBE_PRODUCERS, 0)
        (producer,) = run_steps(handler.handle(context, request)).topics[0].partitions[0].active_producers
        return (
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.current_txn_start_offset,
        )

    assert describe_producer() == (PRODUCER, 0, 6, 1)
    producer_id, epoch, coordinator_epoch, _ = describe_producer()
    aborted = await node.end(
        T0,
        commit=False,
        producer_id=producer_id,
        epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        version=1,
    )
    assert aborted == {T0: DONE}
    assert describe_producer() == (PRODUCER, 0, 6, -1)
    assert node.last_stable_offset() == 3


async def test_the_group_coordinator_is_notified_of_the_end(node: TransactionalNode) -> None:
    assert await node.commit_offset(5) is DONE
    assert await node.offset() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert await node.end(OFFSETS) == {OFFSETS: DONE}
    assert await node.offset() == (5, DONE)


async def test_a_loading_group_coordinator_is_retried(node: TransactionalNode) -> None:
    await node.commit_offset(5)
    node.groups.on_resignation(0)
    assert await node.end(OFFSETS) == {OFFSETS: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    node.groups.on_leadership(0)
    assert await node.end(OFFSETS) == {OFFSETS: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    await loop_iterations()
    assert await node.end(OFFSETS) == {OFFSETS: DONE}
    assert await node.offset() == (5, DONE)


async def test_kafka_15784_a_failed_marker_write_changes_no_state(
    node: TransactionalNode,
) -> None:
    """Otherwise a consumer would receive offsets that the next coordinator does not have."""
    await node.end(OFFSETS, coordinator_epoch=4)
    await node.commit_offset(5)
    refused = await node.end(OFFSETS, coordinator_epoch=3)
    assert refused == {OFFSETS: ErrorCode.TRANSACTION_COORDINATOR_FENCED}
    assert await node.offset() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    await node.load_groups()
    assert await node.offset() == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    assert await node.end(OFFSETS, coordinator_epoch=4) == {OFFSETS: DONE}
    assert await node.offset() == (5, DONE)


async def test_kafka_15784_the_effect_of_a_marker_is_visible_after_its_replication() -> None:
    node = await two_replicas()
    committing = asyncio.ensure_future(node.commit_offset(5))
    await loop_iterations()
    fetch_as_follower(node, OFFSETS)
    assert await committing is DONE
    ending = asyncio.ensure_future(node.end(OFFSETS))
    await loop_iterations()
    assert await node.offset(require_stable=False) == (-1, DONE)
    fetch_as_follower(node, OFFSETS)
    assert await ending == {OFFSETS: DONE}
    assert await node.offset() == (5, DONE)
    await node.stop()
