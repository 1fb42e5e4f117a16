"""Small commits are served from their bytes, with the same results as by the ordinary handler."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.groups.group_handlers import (
    TOPIC_ID,
    UNKNOWN_ID,
    GroupBroker,
    commit_request,
    join,
)
from tests.support.loops.yields import loop_iterations
from tests.support.replicas.replica_manager import FakeRequest
from tests.support.security.authorizers import DenyingAuthorizer
from tidelog.broker.api.handlers.offset_commit_direct import DirectOffsetCommit
from tidelog.broker.api.handlers.readable_topics import TopicAccess
from tidelog.broker.coordinators.groups.classic.member import Client
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.codec import decode
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import read_response_header
from tidelog.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from tidelog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from tidelog.protocol.messages.sync_group import SyncGroupRequest
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ZERO_UUID
from tidelog.protocol.steps import map_items

MEMBER = "<the member of the classic group>"
"""Replaced by the id that the coordinator has given to the member."""

CONSUMER, CONSUMER_MEMBER = "consumer", "m1"
GENERATION, CONSUMER_EPOCH = 1, 2
"""The generation of the classic group `g`, and the epoch of the member of the consumer group."""


class CommitBroker:
    """A broker with a classic group and a consumer group of one member each."""

    def __init__(self, denied: frozenset[str] | None = None) -> None:
        self.broker = GroupBroker()
        self.topics = TopicAccess(
            lambda: self.broker.image, Slices(self.broker.time), DenyingAuthorizer(denied or frozenset())
        )
        self.direct = DirectOffsetCommit(self.broker.service.offset_commits, self.topics)
        self.served_directly = 0
        self._member_id = ""

    async def start(self) -> None:
        await loop_iterations(20)
        joined = await join(self.broker, 9)
        self._member_id = joined.member_id
        sync = SyncGroupRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
        assert (await self.broker.send_request(sync, 5)).error_code == 0
        beat = ConsumerGroupHeartbeatRequest(
            group_id=CONSUMER,
            member_id=CONSUMER_MEMBER,
            rebalance_timeout_ms=1_000,
            subscribed_topic_names=("t",),
            topic_partitions=(),
        )
        service = self.broker.service.consumer_groups
        client = Client("c", "/127.0.0.1")
        pending = service.heartbeat(client, beat, 1, lambda names: map_items(str, names))
        response = pending if isinstance(pending, ConsumerGroupHeartbeatResponse) else await pending
        assert response.member_epoch == CONSUMER_EPOCH

    async def send_directly(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        """Return the response of the direct handler, or of the ordinary one to other requests."""
        request = self._with_member(request)
        arrived = FakeRequest(request, version)
        if not self.direct.handle(arrived):
            assert not arrived.responses
            return await self.send(request, version)
        self.served_directly += 1
        await loop_iterations(5)
        return response_of(arrived)

    async def send(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        """Return the response of the ordinary handler."""
        response = await self.broker.send_request(self._with_member(request), version)
        assert isinstance(response, OffsetCommitResponse)
        return response

    def _with_member(self, request: OffsetCommitRequest) -> OffsetCommitRequest:
        return replace(request, member_id=self._member_id) if request.member_id == MEMBER else request

    @property
    def commits(self) -> list[Any]:
        """The offsets of all groups, without the offsets of their records."""
        (shard,) = self.broker.service._shards.active_shards()
        return [(key, value[:-1]) for key, value in shard.coordinator.committed_offsets.items()]


def response_of(request: FakeRequest) -> OffsetCommitResponse:
    """Return the only response to `request`."""
    (response,) = request.responses
    assert response is not None
    assert int.from_bytes(response[:4]) == len(response) - 4
    version = request.header.api_version
    frame = memoryview(response)[4:]
    correlation_id, position = read_response_header(frame, ApiKey.OFFSET_COMMIT, version)
    assert correlation_id == request.header.correlation_id
    return decode(OffsetCommitResponse, frame[position:], version)


async def started(denied: frozenset[str] | None = None) -> CommitBroker:
    broker = CommitBroker(denied)
    await broker.start()
    return broker


PARTITIONS = st.builds(
    OffsetCommitRequestPartition,
    partition_index=st.sampled_from((0, 1, 0, 1, 0, 1, 0, 1, 7, -1)),
    committed_offset=st.integers(-1, 2**63 - 1),
    committed_leader_epoch=st.integers(-1, 2**31 - 1),
    committed_metadata=st.sampled_from((None, "", "m", "ü" * 60, None, "", "m", "n", "x" * 200, "y" * 4_097)),
)
TOPICS = st.builds(
    OffsetCommitRequestTopic,
    name=st.sampled_from(("t",) * 9 + ("u",)),
    topic_id=st.sampled_from((TOPIC_ID,) * 9 + (UNKNOWN_ID,)),
    partitions=st.sampled_from((1,) * 9 + (0,)).flatmap(
        lambda least: st.lists(PARTITIONS, min_size=least, max_size=2).map(tuple)
    ),
)
VALID_SENDERS = st.sampled_from(
    (
        ("g", GENERATION, MEMBER, None),
        (CONSUMER, CONSUMER_EPOCH, CONSUMER_MEMBER, None),
        ("new", -1, "", None),
        ("", -1, "", None),
    )
)
RANDOM_SENDERS = st.tuples(
    st.sampled_from(("g", CONSUMER, "new", "")),
    st.sampled_from((-1, 0, GENERATION, CONSUMER_EPOCH, 3)),
    st.sampled_from((MEMBER, CONSUMER_MEMBER, "", "unknown")),
    st.sampled_from((None, "i")),
)


@st.composite
def commits(draw: st.DrawFn) -> OffsetCommitRequest:
    """Draw a commit; many of them can be served directly."""
    group_id, epoch, member_id, instance_id = draw(VALID_SENDERS | VALID_SENDERS | RANDOM_SENDERS)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=tuple(draw(st.lists(TOPICS, min_size=draw(st.sampled_from((1, 1, 1, 0))), max_size=2))),
    )


def as_sent(request: OffsetCommitRequest, version: int) -> OffsetCommitRequest:
    """Return the request with only the fields of `version`."""
    topics = tuple(
        replace(topic, name="") if version >= 10 else replace(topic, topic_id=ZERO_UUID)
        for topic in request.topics
    )
    return replace(request, topics=topics)


@settings(max_examples=100, deadline=None)
@given(requests=st.lists(st.tuples(commits(), st.sampled_from((8, 9, 10))), min_size=1, max_size=6))
def test_random_commits_have_the_same_results_as_with_the_ordinary_handler(
    requests: Sequence[tuple[OffsetCommitRequest, int]],
) -> None:
    async def compare() -> None:
        direct, ordinary = await started(), await started()
        for each, version in requests:
            request = as_sent(each, version)
            expected = await ordinary.send(request, version)
            assert await direct.send_directly(request, version) == expected
        assert direct.commits == ordinary.commits
        for broker in (direct, ordinary):
            await broker.broker.service.stop()

    asyncio.run(compare())


def small_commit(version: int, topic_id: UUID = TOPIC_ID) -> OffsetCommitRequest:
    return replace(
        commit_request(version, ("t", topic_id, 0), ("t", topic_id, 1)),
        generation_id_or_member_epoch=GENERATION,
        member_id=MEMBER,
    )


@pytest.mark.parametrize("version", range(2, 11))
async def test_commits_of_flexible_versions_are_served_directly(version: int) -> None:
    broker = await started()
    response = await broker.send_directly(small_commit(version), version)
    assert [each.error_code for topic in response.topics for each in topic.partitions] == [0, 0]
    assert broker.served_directly == (version >= 8)
    assert [(key, value[0]) for key, value in broker.commits] == [(("g", "t", 0), 5), (("g", "t", 1), 5)]
    await broker.broker.service.stop()


async def test_a_large_commit_is_left_to_the_ordinary_handler() -> None:
    broker = await started()
    request = small_commit(9)
    partition = replace(request.topics[0].partitions[0], committed_metadata="m" * 100)
    topics = tuple(replace(request.topics[0], partitions=(partition,) * 20) for _ in range(3))
    assert not broker.direct.handle(FakeRequest(replace(request, topics=topics), 9))
    await broker.broker.service.stop()


@pytest.mark.parametrize("denied", ["g", "t"])
async def test_a_client_without_access_is_left_to_the_ordinary_handler(denied: str) -> None:
    broker = await started(frozenset({denied}))
    request = FakeRequest(broker._with_member(small_commit(9)), 9)
    assert not broker.direct.handle(request)
    assert (request.responses, broker.commits) == ([], [])
    await broker.broker.service.stop()


async def test_commits_wait_for_their_records_and_get_the_error_of_their_append() -> None:
    broker = await started()
    broker.broker.log.holds_commits = True
    requests = [FakeRequest(broker._with_member(small_commit(9)), 9) for _ in range(2)]
    assert all(map(broker.direct.handle, requests))
    await loop_iterations(5)
    assert [request.responses for request in requests] == [[], []]
    assert all(not request.body and request.on_abandoned is not None for request in requests)
    broker.broker.log.commit_all()
    await loop_iterations(5)
    assert [each.error_code for each in response_of(requests[0]).topics[0].partitions] == [0]
    broker.broker.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    refused = FakeRequest(broker._with_member(small_commit(10)), 10)
    assert broker.direct.handle(refused)
    await loop_iterations(5)
    errors = [each.error_code for topic in response_of(refused).topics for each in topic.partitions]
    assert errors == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    await broker.broker.service.stop()


async def test_a_client_that_has_gone_gets_no_response_and_its_offsets_are_committed() -> None:
    broker = await started()
    request = FakeRequest(broker._with_member(small_commit(9)), 9)
    assert broker.direct.handle(request)
    request.abandon()
    await loop_iterations(5)
    assert (request.responses, len(broker.commits)) == ([], 2)
    await broker.broker.service.stop()
