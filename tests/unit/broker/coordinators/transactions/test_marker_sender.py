"""Markers are sent to the partition leaders until each is written or its partition is deleted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.loops.yields import loop_iterations
from tests.support.waiting import eventually
from tidelog.broker.coordinators.transactions.marker_sender import (
    PARTITIONS_PER_REQUEST,
    REQUESTS_IN_FLIGHT,
    RETRY_MS,
    MarkerSender,
)
from tidelog.broker.coordinators.transactions.prepared_transaction import PreparedTransaction
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


class Brokers:
    """A double of channel and metadata: `leaders` of partitions, and the `errors` of their responses."""

    def __init__(self) -> None:
        self.leaders: dict[TopicPartition, int] = {T0: 1, T1: 2, U0: 1}
        self.fenced: set[int] = set()
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.failures: list[Exception] = []
        self.requests: list[tuple[int, WriteTxnMarkersRequest]] = []
        self.gate: asyncio.Event | None = None

    def image(self) -> Any:
        topics: dict[str, Any] = {}
        for (topic, index), leader in self.leaders.items():
            placed = topics.setdefault(topic, SimpleNamespace(partitions={}))
            placed.partitions[index] = SimpleNamespace(leader=leader)
        brokers = {each: SimpleNamespace(fenced=each in self.fenced) for each in (1, 2)}
        return SimpleNamespace(topics_by_name=topics, brokers=brokers)

    async def request(self, broker: int, request: WriteTxnMarkersRequest, _: type) -> WriteTxnMarkersResponse:
        self.requests.append((broker, request))
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            raise self.failures.pop()
        return WriteTxnMarkersResponse(
            markers=tuple(
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=tuple(
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=tuple(
                                WritableTxnMarkerPartitionResult(
                                    partition_index=index,
                                    error_code=self.errors.get(TopicPartition(topic.name, index), 0),
                                )
                                for index in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            )
        )


class MarkerSenderFixture:
    def __init__(self) -> None:
        self.brokers = Brokers()
        self.time = VirtualTime()
        self.marked: list[tuple[str, set[TopicPartition]]] = []
        channel: Any = self.brokers
        self.sender = MarkerSender(channel, self.brokers.image, self.time, self._on_marked)

    def _on_marked(self, marking: PreparedTransaction, partitions: Iterable[TopicPartition]) -> None:
        self.marked.append((marking.transactional_id, set(partitions)))

    def send(self, *partitions: TopicPartition, producer_id: int = 7) -> PreparedTransaction:
        marking = PreparedTransaction(
            transactional_id=f"id-{producer_id}",
            state_partition=0,
            coordinator_epoch=3,
            producer_id=producer_id,
            producer_epoch=5,
            is_commit=True,
            transaction_version=2,
            partitions=frozenset(partitions),
        )
        self.sender.send(marking)
        return marking

    def marked_partitions(self) -> set[TopicPartition]:
        return {partition for _, partitions in self.marked for partition in partitions}

    async def fill(self, partition: TopicPartition) -> None:
        """Send as many requests to its leader as are allowed in flight; `release` completes them."""
        self.brokers.gate = asyncio.Event()
        for number in range(REQUESTS_IN_FLIGHT):
            self.send(partition, producer_id=100 + number)
            await eventually(lambda: len(self.brokers.requests) == number + 1)  # noqa: B023

    def release(self) -> None:
        assert self.brokers.gate is not None
        self.brokers.gate.set()

    async def retry(self) -> None:
        await eventually(lambda: self.sender.transactions_without_leader)
        self.time.pass_time(RETRY_MS)


@pytest.fixture
async def fixture() -> AsyncIterator[MarkerSenderFixture]:
    fixture = MarkerSenderFixture()
    yield fixture
    await fixture.sender.close()


async def test_each_leader_gets_one_request_with_all_its_markers(fixture: MarkerSenderFixture) -> None:
    fixture.send(T0, T1, U0)
    await eventually(lambda: fixture.marked_partitions() == {T0, T1, U0})
    assert sorted(broker for broker, _ in fixture.brokers.requests) == [1, 2]
    [marker] = dict(fixture.brokers.requests)[1].markers
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", (0,)), ("u", (0,))]
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 5, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (3, 2)


async def test_markers_sent_together_share_a_request(fixture: MarkerSenderFixture) -> None:
    for producer_id in (7, 8, 9):
        fixture.send(T0, producer_id=producer_id)
    await eventually(lambda: len(fixture.marked) == 3)
    assert [len(request.markers) for _, request in fixture.brokers.requests] == [3]


async def test_a_marker_does_not_wait_for_the_replication_of_others(fixture: MarkerSenderFixture) -> None:
    fixture.brokers.gate = asyncio.Event()
    fixture.send(T0)
    await eventually(lambda: fixture.brokers.requests)
    gate, fixture.brokers.gate = fixture.brokers.gate, None
    fixture.send(U0, producer_id=8)
    await eventually(lambda: fixture.marked_partitions() == {U0})
    gate.set()
    await eventually(lambda: fixture.marked_partitions() == {T0, U0})


async def test_markers_that_wait_for_the_in_flight_limit_share_the_next_request(
    fixture: MarkerSenderFixture,
) -> None:
    await fixture.fill(T0)
    for producer_id in (8, 9):
        fixture.send(T0, producer_id=producer_id)
        await loop_iterations()
    fixture.release()
    await eventually(lambda: len(fixture.marked) == REQUESTS_IN_FLIGHT + 2)
    sizes = [len(request.markers) for _, request in fixture.brokers.requests]
    assert sizes == [1] * REQUESTS_IN_FLIGHT + [2]


@pytest.mark.parametrize(
    "failure",
    [
        KafkaError(ErrorCode.BROKER_NOT_AVAILABLE),
        KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        RuntimeError("bug"),
    ],
)
async def test_a_failed_request_is_sent_again_to_the_current_leader(
    fixture: MarkerSenderFixture, failure: Exception
) -> None:
    fixture.brokers.failures.append(failure)
    fixture.send(T0)
    await eventually(lambda: fixture.sender.transactions_without_leader)
    fixture.brokers.leaders[T0] = 2
    await fixture.retry()
    await eventually(lambda: fixture.marked_partitions() == {T0})
    assert [broker for broker, _ in fixture.brokers.requests] == [1, 2]


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_only_a_partition_that_refused_gets_the_marker_again(
    fixture: MarkerSenderFixture, error: ErrorCode
) -> None:
    fixture.brokers.errors[T0] = error
    fixture.send(T0, U0)
    await eventually(lambda: fixture.marked_partitions() == {U0})
    fixture.brokers.errors.clear()
    await fixture.retry()
    await eventually(lambda: fixture.marked_partitions() == {T0, U0})
    [marker] = fixture.brokers.requests[-1][1].markers
    assert [topic.name for topic in marker.topics] == ["t"]


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT]
)
async def test_a_partition_without_an_open_transaction_counts_as_complete(
    fixture: MarkerSenderFixture, error: ErrorCode
) -> None:
    fixture.brokers.errors[T0] = error
    fixture.send(T0)
    await eventually(lambda: fixture.marked_partitions() == {T0})


@pytest.mark.parametrize("is_fenced", [True, False])
async def test_a_partition_without_a_leader_is_awaited(fixture: MarkerSenderFixture, is_fenced: bool) -> None:
    if is_fenced:
        fixture.brokers.fenced.add(1)
    else:
        fixture.brokers.leaders[T0] = -1
    fixture.send(T0)
    await fixture.retry()
    assert not fixture.brokers.requests
    fixture.brokers.fenced.clear()
    fixture.brokers.leaders[T0] = 2
    await fixture.retry()
    await eventually(lambda: fixture.marked_partitions() == {T0})


async def test_a_partition_that_is_deleted_needs_no_marker(fixture: MarkerSenderFixture) -> None:
    deleted = TopicPartition("deleted", 0)
    fixture.send(deleted)
    await eventually(lambda: fixture.marked_partitions() == {deleted})
    assert not fixture.brokers.requests


async def test_markers_of_a_former_coordinator_are_not_sent(fixture: MarkerSenderFixture) -> None:
    fixture.brokers.gate = asyncio.Event()
    fixture.send(T0, producer_id=8)
    await eventually(lambda: fixture.brokers.requests)
    waiting = fixture.send(T0, U0)
    await asyncio.sleep(0)
    waiting.is_cancelled = True
    fixture.brokers.gate.set()
    await eventually(lambda: fixture.marked_partitions() == {T0})
    fixture.send(U0, producer_id=9)
    await eventually(lambda: fixture.marked_partitions() == {T0, U0})
    assert [marker.producer_id for _, request in fixture.brokers.requests for marker in request.markers] == [
        8,
        9,
    ]


async def test_the_size_of_a_request_is_bounded(fixture: MarkerSenderFixture) -> None:
    fixture.brokers.gate = asyncio.Event()
    half = [TopicPartition("big", index) for index in range(PARTITIONS_PER_REQUEST // 2 + 1)]
    fixture.brokers.leaders.update(dict.fromkeys(half, 1))
    fixture.send(T0)
    await eventually(lambda: fixture.brokers.requests)
    for producer_id in (8, 9):
        fixture.send(*half, producer_id=producer_id)
    await asyncio.sleep(0)
    fixture.brokers.gate.set()
    await eventually(lambda: len(fixture.marked) == 3)
    assert [len(request.markers) for _, request in fixture.brokers.requests] == [1, 1, 1]


async def test_a_refusing_partition_is_not_retried_with_every_new_transaction(
    fixture: MarkerSenderFixture,
) -> None:
    fixture.brokers.errors[T1] = ErrorCode.NOT_ENOUGH_REPLICAS
    fixture.send(T1)
    await eventually(lambda: fixture.sender.transactions_without_leader)
    for producer_id in range(8, 12):
        fixture.send(T0, producer_id=producer_id)
    await eventually(lambda: len(fixture.marked) == 4)
    assert [broker for broker, _ in fixture.brokers.requests].count(2) == 1


async def test_markers_for_an_unavailable_broker_are_sent_to_the_new_leaders(
    fixture: MarkerSenderFixture,
) -> None:
    await fixture.fill(T0)
    fixture.send(U0, producer_id=8)
    await loop_iterations()
    fixture.brokers.leaders |= {T0: 2, U0: 2}
    fixture.brokers.failures = [KafkaError(ErrorCode.REQUEST_TIMED_OUT)]
    fixture.release()
    await fixture.retry()
    await eventually(lambda: fixture.marked_partitions() == {T0, U0})
    assert [broker for broker, _ in fixture.brokers.requests] == [1] * REQUESTS_IN_FLIGHT + [2]


async def test_markers_that_fail_for_hours_are_logged_in_one_line_per_request(
    fixture: MarkerSenderFixture, caplog: pytest.LogCaptureFixture
) -> None:
    # A line for each of thousands of transactions every 50 ms would use all CPU time of the node.
    caplog.set_level("INFO")
    fixture.brokers.errors = {T0: ErrorCode.NOT_ENOUGH_REPLICAS}
    for producer_id in range(100):
        fixture.send(T0, producer_id=producer_id)
    await eventually(lambda: fixture.sender.transactions_without_leader == 100)
    assert len(caplog.records) == 1
    assert "100 transactions" in caplog.text
    assert str(int(ErrorCode.NOT_ENOUGH_REPLICAS)) in caplog.text
