"""A fetch of many partitions is decoded, read, parked and encoded in slices."""

from __future__ import annotations

import asyncio
from typing import cast
from uuid import UUID

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.yields import IterationCounter, counted_slices, loop_iterations
from tests.support.replicas.replica_manager import FakeRequest, Replicas
from tests.support.security.authorizers import ALLOW_EVERYTHING, DenyingAuthorizer
from tests.support.waiting import eventually
from tidelog.broker.api.handlers.fetch import FetchHandler
from tidelog.broker.fetching.fetch_options import FetchOptions
from tidelog.broker.fetching.fetch_sessions import FetchSessionCache
from tidelog.broker.observability.topic_traffic import TopicTraffic
from tidelog.broker.partitions.current_leaders import CurrentLeaders
from tidelog.broker.partitions.partition import Partition
from tidelog.broker.purgatory.purgatory import Purgatory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.scheduling.slices import LONG_REQUESTS_MAX, LONG_SLICES, Slices
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.cluster.acls import CLUSTER_NAME
from tidelog.protocol.batch_builder import BatchBuilder
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.ids import TopicPartition
from tidelog.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from tidelog.protocol.metadata_records.remove_topic_record import RemoveTopicRecord
from tidelog.protocol.steps import Steps

MANY = 1_500
SLICES_OF_MANY = MANY // 1_000
"""A step is a hundred partitions, and a slice ten steps."""


class Broker:
    """A topic of MANY partitions, and how many of its fetches wait."""

    def __init__(self, authorizer: Authorizer = ALLOW_EVERYTHING) -> None:
        self.clock = ManualClock()
        self.replicas = Replicas()
        self.timers = Timers(self.clock.monotonic_ms)
        self.fetches, produces, deletions = (Purgatory(name, self.timers) for name in ("f", "p", "d"))
        self.replicas.watch(self.fetches, produces, deletions)
        self.slices = counted_slices()
        self.traffic = TopicTraffic()
        self.topic_id = self.replicas.create("wide", MANY)
        manager = self.replicas.manager
        self.handler = FetchHandler(
            manager,
            FetchSessionCache(10, lambda: 7),
            self.fetches,
            self.traffic,
            self.clock,
            CurrentLeaders(lambda: self.replicas.image, manager),
            FetchOptions(max_bytes=1 << 20, slices=self.slices, authorizer=authorizer),
        )

    def fetch(
        self,
        offsets: dict[int, int],
        *,
        min_bytes: int = 1,
        max_wait_ms: int = 500,
        session: tuple[int, int] = (0, -1),
        version: int = 16,
        topic_id: UUID | None = None,
        replica_id: int = -1,
    ) -> FakeRequest:
        """Fetch from partitions at offsets; `session` is a session's id and epoch."""
        partitions = tuple(
            FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1_000)
            for index, offset in offsets.items()
        )
        topic = FetchTopic(topic="wide", topic_id=topic_id or self.topic_id, partitions=partitions)
        message = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            session_id=session[0],
            session_epoch=session[1],
            topics=(topic,) if partitions else (),
            replica_state=ReplicaState(replica_id=replica_id),
        )
        request = FakeRequest(message, version)
        self.handler.handle(request)
        return request

    def partition(self, index: int) -> Partition:
        return self.replicas.manager.partition(TopicPartition("wide", index))

    async def begin_parking(self) -> None:
        """Wait until some of the partitions of a fetch are watched, and not all."""
        for _ in range(100):
            if self.fetches.watched_count:
                break
            await asyncio.sleep(0)
        assert 0 < self.fetches.watched_count < MANY

    def append(self, index: int) -> None:
        """Append one record as the leader, and check the waiting fetches."""
        builder = BatchBuilder()
        builder.append(0, b"k", b"v")
        partition = self.partition(index)
        partition.append(bytearray(builder.build()), 1, self.clock.wall_ms())
        self.fetches.check_and_complete(partition.topic_partition)


@pytest.fixture
def broker() -> Broker:
    return Broker()


ALL = dict.fromkeys(range(MANY), 0)


async def response(request: FakeRequest) -> FetchResponse:
    await eventually(lambda: bool(request.responses))
    return cast(FetchResponse, request.response)


async def partitions(request: FakeRequest) -> list[PartitionData]:
    return [each for topic in (await response(request)).responses for each in topic.partitions]


def with_records(results: list[PartitionData]) -> list[int]:
    return [each.partition_index for each in results if each.records]


@pytest.mark.parametrize("version", [4, 11, 12, 13, 18])
async def test_a_full_fetch_of_many_partitions_yields_to_other_callbacks(
    broker: Broker, version: int
) -> None:
    for index in (5, MANY - 1):
        broker.append(index)
    turns = IterationCounter()
    request = broker.fetch(ALL, version=version)
    assert not request.responses
    partition_data = await partitions(request)
    turns.stop()
    assert [each.partition_index for each in partition_data] == list(range(MANY))
    assert with_records(partition_data) == [5, MANY - 1]
    assert {each.error_code for each in partition_data} == {0}
    assert turns.count >= 3 * SLICES_OF_MANY, "decoding, reading and encoding are divided"
    assert broker.traffic.fetch_requests == MANY
    assert broker.traffic.bytes_out == sum(len(each.records or b"") for each in partition_data)


async def test_the_last_entry_of_a_duplicate_partition_is_used(broker: Broker) -> None:
    topic = FetchTopic(
        topic="wide",
        partitions=tuple(
            FetchPartition(partition=0, fetch_offset=number % 7, partition_max_bytes=1)
            for number in range(MANY)
        ),
    )
    request = FakeRequest(FetchRequest(max_wait_ms=0, session_epoch=-1, topics=(topic,)), 12)
    broker.handler.handle(request)
    (partition_data,) = await partitions(request)
    assert (MANY - 1) % 7, "the last offset is out of range, the first is not"
    assert partition_data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


async def occupy(slices: Slices) -> None:
    """Start more long requests of clients than are served at the same time; they do not end."""

    def endless() -> Steps[None]:
        while True:
            yield None

    def fail(_: object) -> None:
        pytest.fail("the requests of the clients have no end")

    for _ in range(2 * LONG_REQUESTS_MAX):
        slices.start(endless(), fail, fail, is_request=True)
    await loop_iterations(4 * LONG_SLICES * LONG_REQUESTS_MAX)


async def test_a_follower_does_not_wait_behind_the_long_requests_of_clients(broker: Broker) -> None:
    await occupy(broker.slices)
    client = broker.fetch(ALL, max_wait_ms=0)
    assert len(await partitions(broker.fetch(ALL, max_wait_ms=0, replica_id=2))) == MANY
    assert not client.responses
    broker.slices.close()


async def test_a_client_that_claims_to_be_a_follower_waits_as_other_clients() -> None:
    broker = Broker(DenyingAuthorizer({CLUSTER_NAME}))
    await occupy(broker.slices)
    claiming = broker.fetch(ALL, max_wait_ms=0, replica_id=2)
    await loop_iterations(20 * LONG_REQUESTS_MAX)
    assert not claiming.responses
    broker.slices.close()


async def test_a_session_of_many_partitions_is_served_in_slices(broker: Broker) -> None:
    first_response = await response(broker.fetch(ALL, max_wait_ms=0, session=(0, 0)))
    assert first_response.session_id == 7
    broker.append(3)
    turns = IterationCounter()
    request = broker.fetch({}, session=(7, 1))
    assert not request.responses
    partition_data = await partitions(request)
    turns.stop()
    assert with_records(partition_data) == [3]
    assert len(partition_data) == 1, "only news is sent"
    assert turns.count >= SLICES_OF_MANY


async def test_a_waiting_fetch_of_many_partitions_completes_when_one_of_them_has_data(broker: Broker) -> None:
    request = broker.fetch(ALL)
    await eventually(lambda: broker.fetches.watched_count == MANY and broker.slices.pending_count == 0)
    assert not request.responses
    assert len(request.frame) == 0, "a fetch that waits keeps no frame"
    broker.append(MANY - 1)
    assert broker.fetches.delayed_count == 0
    assert with_records(await partitions(request)) == [MANY - 1]
    assert broker.fetches.watched_count == 0


async def test_records_appended_between_two_slices_are_returned(broker: Broker) -> None:
    stages: set[tuple[bool, bool]] = set()
    for turns in range(30):
        index = (0, MANY // 2, MANY - 1)[turns % 3]
        request = broker.fetch({each: broker.partition(each).log.log_end_offset for each in ALL})
        await loop_iterations(turns)
        stages.add((broker.fetches.watched_count > 0, broker.slices.pending_count > 0))
        broker.append(index)
        assert with_records(await partitions(request)) == [index], turns
        await eventually(lambda: broker.slices.pending_count == 0)
        assert broker.fetches.watched_count == 0
    assert stages == {(False, True), (True, True), (True, False)}, "before, while and after it is parked"


async def test_a_fetch_that_expires_while_it_is_parked_gets_one_response(broker: Broker) -> None:
    request = broker.fetch(ALL)
    await broker.begin_parking()
    broker.clock.now_ms += 501
    broker.timers.advance()
    assert with_records(await partitions(request)) == []
    await eventually(lambda: broker.slices.pending_count == 0)
    assert len(request.responses) == 1
    assert (broker.fetches.delayed_count, broker.fetches.watched_count) == (0, 0)


@pytest.mark.parametrize("stage", ["decoding", "parking", "waiting", "reading"])
async def test_a_fetch_of_a_disconnected_client_is_removed(broker: Broker, stage: str) -> None:
    request = broker.fetch(ALL)
    if stage == "parking":
        await broker.begin_parking()
    if stage in ("waiting", "reading"):
        await eventually(lambda: broker.slices.pending_count == 0)
        assert broker.fetches.watched_count == MANY
    if stage == "reading":
        broker.append(1)
        assert broker.slices.pending_count == 1
    request.abandon()
    await eventually(lambda: broker.slices.pending_count == 0)
    assert (broker.fetches.delayed_count, broker.fetches.watched_count) == (0, 0)
    assert not request.responses


async def test_a_topic_deleted_while_its_fetch_is_parked_is_unknown(broker: Broker) -> None:
    request = broker.fetch(ALL)
    await broker.begin_parking()
    broker.replicas.replay(RemoveTopicRecord(topic_id=broker.topic_id))
    codes = {each.error_code for each in await partitions(request)}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_ID}


async def test_a_large_malformed_fetch_closes_the_connection(broker: Broker) -> None:
    message = FetchRequest(
        session_epoch=-1,
        topics=(FetchTopic(topic="wide", partitions=tuple(FetchPartition(partition=n) for n in ALL)),),
    )
    request = FakeRequest(message, 12)
    request.frame = request.body = request.body[:-10]
    broker.handler.handle(request)
    await eventually(lambda: bool(request.closed))
    assert "Fetch" in request.closed[0]


async def test_a_fetch_of_a_hundred_partitions_gets_its_response_at_once(broker: Broker) -> None:
    request = broker.fetch(dict.fromkeys(range(100), 0), max_wait_ms=0)
    assert request.responses
    assert broker.slices.slice_count == 0
