"""Requests and responses that are handled in steps: slices, limits, and clients that disconnect."""

from __future__ import annotations

import asyncio
import struct
import sys
from functools import partial
from typing import cast

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.network.dispatching_broker import (
    DispatchingBroker,
    has_length,
    heartbeat,
    names,
    receive,
    run_broker,
    send,
    send_request,
)
from tests.support.waiting import eventually
from tidelog.broker.network.receive_buffer import FIRST_BYTES
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.scheduling.slices import HEAVY_MAX
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import encode_request
from tidelog.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from tidelog.protocol.messages.list_groups import ListGroupsRequest
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Steps, map_items


@on_both_loops
async def test_a_handler_may_respond_in_steps() -> None:
    def handler(context: RequestContext, request: HeartbeatRequest) -> Steps[HeartbeatResponse]:
        yield None
        if request.group_id == "bad":
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "bad")
        return HeartbeatResponse(throttle_time_ms=len(request.group_id))

    broker = DispatchingBroker()
    broker.dispatcher.register(ApiKey.HEARTBEAT, handler)
    async with run_broker(broker):
        client = await broker.connect()
        assert await send_request(client, HeartbeatRequest(group_id="gggg"), 4) == HeartbeatResponse(
            throttle_time_ms=4
        )
        refused = await send_request(client, HeartbeatRequest(group_id="bad"), 4)
        assert refused == HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID)
        assert broker.channel.running_count == 0


@on_both_loops
async def test_a_large_request_yields_to_others() -> None:
    def handler(context: RequestContext, request: CreateTopicsRequest) -> Steps[CreateTopicsResponse]:
        results = yield from map_items(lambda topic: CreatableTopicResult(name=topic.name), request.topics)
        return CreateTopicsResponse(topics=results)

    broker = DispatchingBroker(ticking=True)
    broker.dispatcher.register(ApiKey.CREATE_TOPICS, handler)
    broker.dispatcher.register(ApiKey.HEARTBEAT, heartbeat)
    async with run_broker(broker):
        large, small = await broker.connect(), await broker.connect()
        await send(large, names(5_000), 5)
        await eventually(lambda: broker.dispatcher.slices.pending_count == 1)
        before = broker.dispatcher.slices.slice_count
        assert await send_request(small, HeartbeatRequest(group_id="g"), 4) == HeartbeatResponse(
            throttle_time_ms=1
        )
        assert broker.dispatcher.slices.pending_count == 1, "the small request did not wait for the large one"
        response = await receive(large, ApiKey.CREATE_TOPICS, 5)
        assert response == CreateTopicsResponse(
            topics=tuple(CreatableTopicResult(name=f"topic-{n}") for n in range(5_000))
        )
        # Decoding, handling and encoding, in slices of ten steps.
        assert broker.dispatcher.slices.slice_count - before > 500


@on_both_loops
async def test_a_response_above_the_clients_limit_is_replaced_by_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, the broker could build a response of gigabytes for a request of some bytes."""
    monkeypatch.setattr("tidelog.protocol.framing.RESPONSE_BYTES_MAX", 1_000_000)
    member = DescribedGroupMember(member_id="m", member_metadata=bytes(1_000))

    def handler(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        groups = tuple(DescribedGroup(group_id=name, members=(member,)) for name in request.groups)
        return DescribeGroupsResponse(groups=groups)

    broker = DispatchingBroker()
    broker.dispatcher.register(ApiKey.DESCRIBE_GROUPS, handler)
    async with run_broker(broker):
        client = await broker.connect()
        response = await send_request(client, DescribeGroupsRequest(groups=("a",) * 2_000), 6)
        assert isinstance(response, DescribeGroupsResponse)
        assert {group.error_code for group in response.groups} == {ErrorCode.INVALID_REQUEST}
        assert "request fewer" in (response.groups[0].error_message or "")


@on_both_loops
async def test_the_error_response_to_a_large_request_is_built_in_slices() -> None:
    def handler(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "no")

    broker = DispatchingBroker(ticking=True)
    broker.dispatcher.register(ApiKey.CREATE_TOPICS, handler)
    async with run_broker(broker):
        client = await broker.connect()
        await send(client, names(2_000), 5)
        response = await receive(client, ApiKey.CREATE_TOPICS, 5)
        assert isinstance(response, CreateTopicsResponse)
        assert {topic.error_code for topic in response.topics} == {ErrorCode.POLICY_VIOLATION}
        assert len(response.topics) == 2_000
        assert broker.dispatcher.slices.slice_count > 200


@on_both_loops
async def test_a_large_request_ends_when_the_client_disconnects() -> None:
    steps = 0

    def handler(context: RequestContext, request: HeartbeatRequest) -> Steps[HeartbeatResponse]:
        nonlocal steps
        while True:
            steps += 1
            yield None

    broker = DispatchingBroker(ticking=True)
    broker.dispatcher.register(ApiKey.HEARTBEAT, handler)
    async with run_broker(broker):
        client = await broker.connect()
        await send(client, HeartbeatRequest(), 4)
        await eventually(lambda: steps > 100)
        client.reset()
        await eventually(lambda: broker.dispatcher.slices.pending_count == 0)


@on_both_loops
async def test_a_malformed_large_request_closes_its_connection() -> None:
    broker = DispatchingBroker(ticking=True)
    broker.dispatcher.register(ApiKey.CREATE_TOPICS, lambda context, request: CreateTopicsResponse())
    async with run_broker(broker):
        client = await broker.connect()
        frame = bytearray(encode_request(ApiKey.CREATE_TOPICS, 5, 1, "test-client", names(2_000)))
        frame[-200:] = b"\xff" * 200
        await client.send(bytes(frame))
        assert await client.is_closed()
        assert broker.dispatcher.slices.pending_count == 0


@on_both_loops
async def test_a_waiting_typed_handler_holds_neither_frame_nor_message() -> None:
    parked: list[asyncio.Future[JoinGroupResponse]] = []
    metadata: list[bytes] = []

    async def park(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse:
        metadata.append(request.protocols[0].metadata)
        del request
        parked.append(asyncio.get_running_loop().create_future())
        return await parked[-1]

    broker = DispatchingBroker()
    broker.dispatcher.register(ApiKey.JOIN_GROUP, park, uses_slot=False)
    async with run_broker(broker):
        first, second = await broker.connect(), await broker.connect()
        protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(1_000_000))
        for number, client in enumerate((first, second)):
            await send(client, JoinGroupRequest(protocol_type="consumer", protocols=(protocol,)), 9)
            await eventually(partial(has_length, parked, number + 1))
        # This list and the call itself: nothing else refers to what the message contained.
        assert [sys.getrefcount(metadata[index]) for index in range(2)] == [2, 2]
        buffered = [
            connection.core.buffer.capacity_bytes for connection in broker.served.server.connections()
        ]
        assert max(buffered) <= FIRST_BYTES
        parked[0].set_result(JoinGroupResponse(generation_id=3))
        assert await receive(first, ApiKey.JOIN_GROUP, 9) == JoinGroupResponse(generation_id=3)
        parked[1].set_exception(KafkaError(ErrorCode.NOT_COORDINATOR, "moved"))
        refused = cast(JoinGroupResponse, await receive(second, ApiKey.JOIN_GROUP, 9))
        assert refused.error_code == ErrorCode.NOT_COORDINATOR


@on_both_loops
async def test_an_awaited_future_is_cancelled_when_the_client_disconnects() -> None:
    future: asyncio.Future[ApiMessage] = asyncio.get_running_loop().create_future()
    broker = DispatchingBroker()
    broker.dispatcher.register(ApiKey.LIST_GROUPS, lambda context, request: future)
    async with run_broker(broker):
        client = await broker.connect()
        await send(client, ListGroupsRequest(), 4)
        await eventually(lambda: broker.metrics.of("ListGroups", 5).requests[4] == 1)
        client.close()
        await eventually(future.cancelled)


@on_both_loops
async def test_a_request_is_decoded_only_when_it_has_a_place_in_the_channel() -> None:
    gate = asyncio.Event()

    async def handler(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        await gate.wait()
        return HeartbeatResponse()

    broker = DispatchingBroker(limit=1)
    broker.dispatcher.register(ApiKey.HEARTBEAT, handler)
    async with run_broker(broker):
        first, second, malformed = [await broker.connect() for _ in range(3)]
        await send(first, HeartbeatRequest(), 4)
        await eventually(lambda: broker.channel.running_count == 1)
        await send(second, HeartbeatRequest(), 4)
        whole = encode_request(ApiKey.HEARTBEAT, 4, 7, "test-client", HeartbeatRequest())
        await malformed.send(struct.pack(">i", len(whole) - 8) + whole[4:-4])
        await eventually(lambda: broker.channel.waiting_count == 2)
        gate.set()
        assert await receive(second, ApiKey.HEARTBEAT, 4) == HeartbeatResponse()
        assert await malformed.is_closed()


@on_both_loops
@pytest.mark.parametrize("only_waits", [True, False])
async def test_a_disconnect_cancels_only_handlers_that_wait(
    only_waits: bool,
) -> None:
    broker = DispatchingBroker()
    goes_on = asyncio.Event()
    ends: list[str] = []

    async def handle(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        try:
            await goes_on.wait()
        except asyncio.CancelledError:
            ends.append("cancelled")
            raise
        ends.append("completed")
        return HeartbeatResponse()

    broker.dispatcher.register(ApiKey.HEARTBEAT, handle, uses_slot=False, is_cancellable=only_waits)
    async with run_broker(broker):
        client = await broker.connect()
        await send(client, HeartbeatRequest(), 4)
        (connection,) = broker.served.server.connections()
        await eventually(lambda: connection.core.lacks_responses)
        client.close()
        await eventually(lambda: connection.core.has_peer_closed or not connection.core.lacks_responses)
        goes_on.set()
        await eventually(lambda: bool(ends))
        assert ends == ["cancelled" if only_waits else "completed"]
        await eventually(lambda: broker.served.server.quota.count == 0)


@on_both_loops
async def test_the_number_of_large_responses_in_progress_is_limited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred requests for 36 MB each were encoded at the same time."""
    monkeypatch.setattr("tidelog.protocol.framing.RESPONSE_PART_BYTES", 10_000)
    member = DescribedGroupMember(member_id="m", member_metadata=bytes(1_000))

    def handler(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        groups = tuple(DescribedGroup(group_id=name, members=(member,)) for name in request.groups)
        return DescribeGroupsResponse(groups=groups)

    broker = DispatchingBroker(ticking=True)
    broker.dispatcher.register(ApiKey.DESCRIBE_GROUPS, handler)
    async with run_broker(broker):
        clients = [await broker.connect() for _ in range(3 * HEAVY_MAX)]
        for client in clients:
            await send(client, DescribeGroupsRequest(groups=("a",) * 1_000), 6)
        slices = broker.dispatcher.slices
        await eventually(lambda: slices.heavy_count == HEAVY_MAX and slices.pending_count > HEAVY_MAX)
        for client in clients:
            response = await receive(client, ApiKey.DESCRIBE_GROUPS, 6)
            assert isinstance(response, DescribeGroupsResponse)
            assert len(response.groups) == 1_000
        assert slices.heavy_count == 0
