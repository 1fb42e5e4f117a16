"""Dispatch of frames to handlers and responses: versions, errors, places in the request channel."""

from __future__ import annotations

import asyncio
import logging
import struct
import sys
from collections.abc import AsyncIterator, Callable, Sized
from contextlib import asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any, cast

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.yields import counted_slices
from tests.support.messages.error_responses import error_response_of
from tests.support.network.loopback_server import Client, RunningServer, running_server
from tests.support.waiting import eventually
from tidelog.base.clock import SystemClock
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.api.handlers.api_versions import ApiVersionsHandler, Features
from tidelog.broker.network.receive_buffer import FIRST_BYTES
from tidelog.broker.network.request import Quota, Request
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.network.request_metrics import RequestMetrics
from tidelog.broker.scheduling.slices import HEAVY_MAX, Slices
from tidelog.protocol.codec import decode
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader, encode_request, encode_response, read_response_header
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
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
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.registry import ApiKey, response_type
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import Steps, map_items

HEARTBEAT_HIGHEST = 4


class Broker:
    """A served dispatcher."""

    def __init__(self, limit: int = 500, *, ticking: bool = False) -> None:
        """With `ticking` ten steps make a slice, however fast they are."""
        self.channel = RequestChannel(limit)
        self.metrics = RequestMetrics()
        slices = counted_slices() if ticking else Slices(SystemClock())
        self.dispatcher = Dispatcher(
            self.channel, self.metrics, SystemClock(), slices, quotas=None, guard=None
        )
        self.served: RunningServer

    async def connect(self) -> Client:
        return await self.served.connect()


@asynccontextmanager
async def run_broker(broker: Broker) -> AsyncIterator[Broker]:
    async with running_server(broker.dispatcher.dispatch) as served:
        broker.served = served
        yield broker
    await broker.channel.close()


async def send(client: Client, message: ApiMessage, version: int, correlation_id: int = 7) -> None:
    await client.send(
        encode_request(ApiKey(message.api_key), version, correlation_id, "test-client", message)
    )


async def receive(client: Client, key: ApiKey, version: int, correlation_id: int = 7) -> ApiMessage:
    answer = memoryview(await client.receive())
    answered, position = read_response_header(answer, key, version)
    assert answered == correlation_id
    return decode(response_type(key), answer[position:], version)


async def send_request(client: Client, message: ApiMessage, version: int) -> ApiMessage:
    await send(client, message, version)
    return await receive(client, ApiKey(message.api_key), version)


def heartbeat(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    return HeartbeatResponse(throttle_time_ms=len(request.group_id))


def has_requests(channel: RequestChannel, count: int) -> bool:
    return channel.running_count + channel.waiting_count == count


def has_length(items: Sized, length: int) -> bool:
    return len(items) == length


@on_both_loops
async def test_a_typed_handler_gets_the_message_and_the_connection() -> None:
    contexts: list[RequestContext] = []

    def handler(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        contexts.append(context)
        return heartbeat(context, request)

    broker = Broker()
    broker.dispatcher.register(ApiKey.HEARTBEAT, handler)
    async with run_broker(broker):
        client = await broker.connect()
        for version in range(1, HEARTBEAT_HIGHEST + 1):
            response = await send_request(client, HeartbeatRequest(group_id="gggg"), version)
            assert response == HeartbeatResponse(throttle_time_ms=4)
        context = contexts[0]
        assert context.header.client_id == "test-client"
        assert (context.listener, context.peer) == ("PLAINTEXT", client.address)
        assert context.principal == "User:ANONYMOUS"
        assert context.client_host == "/127.0.0.1"
        assert broker.metrics.apis["Heartbeat"].requests == [0, 1, 1, 1, 1]
        assert sum(broker.metrics.apis["Heartbeat"].times.buckets) == HEARTBEAT_HIGHEST


@on_both_loops
async def test_responses_of_coroutines_and_futures_are_sent_on_completion() -> None:
    gate = asyncio.Event()
    future: asyncio.Future[ApiMessage] = asyncio.get_running_loop().create_future()

    async def coroutine(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        await gate.wait()
        return HeartbeatResponse(throttle_time_ms=1)

    broker = Broker()
    broker.dispatcher.register(ApiKey.HEARTBEAT, coroutine)
    broker.dispatcher.register(ApiKey.LIST_GROUPS, lambda context, request: future)
    async with run_broker(broker):
        first, second = await broker.connect(), await broker.connect()
        await send(first, HeartbeatRequest(), 4)
        await send(second, ListGroupsRequest(), 4)
        await eventually(lambda: broker.channel.running_count == 1)
        gate.set()
        assert await receive(first, ApiKey.HEARTBEAT, 4) == HeartbeatResponse(throttle_time_ms=1)
        future.set_result(ListGroupsResponse(throttle_time_ms=2))
        assert await receive(second, ApiKey.LIST_GROUPS, 4) == ListGroupsResponse(throttle_time_ms=2)
        assert broker.channel.running_count == 0


@on_both_loops
async def test_requests_wait_in_order_for_a_full_channel() -> None:
    started: list[str] = []
    gates: dict[str, asyncio.Event] = {}

    async def handler(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        started.append(request.group_id)
        gates[request.group_id] = asyncio.Event()
        await gates[request.group_id].wait()
        return HeartbeatResponse()

    broker = Broker(limit=2)
    broker.dispatcher.register(ApiKey.HEARTBEAT, handler)
    async with run_broker(broker):
        clients = [await broker.connect() for _ in range(6)]
        for number, client in enumerate(clients):
            await send(client, HeartbeatRequest(group_id=str(number)), 4)
            await eventually(partial(has_requests, broker.channel, number + 1))
        assert started == ["0", "1"]
        assert (broker.channel.running_count, broker.channel.waiting_count) == (2, 4)
        for number, client in enumerate(clients):
            await eventually(partial(gates.__contains__, str(number)))
            gates[str(number)].set()
            await receive(client, ApiKey.HEARTBEAT, 4)
            assert broker.channel.running_count <= 2
        assert started == [str(number) for number in range(6)]


@on_both_loops
async def test_raw_and_parking_handlers_bypass_a_full_channel() -> None:
    forever = asyncio.Event()
    parked: asyncio.Future[ApiMessage] = asyncio.get_running_loop().create_future()

    async def stuck(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        await forever.wait()
        return CreateTopicsResponse()

    async def park(context: RequestContext, request: ListGroupsRequest) -> ApiMessage:
        return await parked

    def raw(request: Request) -> None:
        request.respond(
            encode_response(ApiKey.HEARTBEAT, 4, request.header.correlation_id, HeartbeatResponse())
        )

    broker = Broker(limit=1)
    broker.dispatcher.register(ApiKey.CREATE_TOPICS, stuck)
    broker.dispatcher.register(ApiKey.LIST_GROUPS, park, uses_slot=False)
    broker.dispatcher.register_raw(ApiKey.HEARTBEAT, raw)
    async with run_broker(broker):
        full, waiting, free = [await broker.connect() for _ in range(3)]
        await send(full, CreateTopicsRequest(), 7)
        await eventually(lambda: broker.channel.running_count == 1)
        await send(waiting, ListGroupsRequest(), 4)
        assert await send_request(free, HeartbeatRequest(), 4) == HeartbeatResponse()
        parked.set_result(ListGroupsResponse())
        assert await receive(waiting, ApiKey.LIST_GROUPS, 4) == ListGroupsResponse()
        forever.set()


@on_both_loops
async def test_a_waiting_request_of_a_disconnected_client_is_removed() -> None:
    gate = asyncio.Event()
    calls = 0

    async def handler(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        nonlocal calls
        calls += 1
        await gate.wait()
        return HeartbeatResponse()

    broker = Broker(limit=1)
    broker.dispatcher.register(ApiKey.HEARTBEAT, handler)
    async with run_broker(broker):
        first, second = await broker.connect(), await broker.connect()
        await send(first, HeartbeatRequest(), 4)
        await eventually(lambda: broker.channel.running_count == 1)
        await send(second, HeartbeatRequest(), 4)
        await eventually(lambda: broker.channel.waiting_count == 1)
        second.reset()
        await eventually(lambda: broker.channel.waiting_count == 0)
        gate.set()
        await receive(first, ApiKey.HEARTBEAT, 4)
        assert calls == 1


@pytest.mark.parametrize("how", ["plain", "coroutine", "raw"])
@on_both_loops
async def test_a_kafka_error_becomes_its_code_in_the_response(how: str) -> None:
    error = KafkaError(ErrorCode.NOT_COORDINATOR, "not here")

    def plain(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        raise error

    async def coroutine(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        raise error

    def raw(request: Request) -> None:
        raise error

    broker = Broker()
    if how == "raw":
        broker.dispatcher.register_raw(ApiKey.HEARTBEAT, raw)
    else:
        broker.dispatcher.register(ApiKey.HEARTBEAT, plain if how == "plain" else coroutine)
    async with run_broker(broker):
        client = await broker.connect()
        for version in range(HEARTBEAT_HIGHEST + 1):
            response = await send_request(client, HeartbeatRequest(), version)
            assert response == HeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
        assert broker.metrics.apis["Heartbeat"].errors == {ErrorCode.NOT_COORDINATOR: 5}


@pytest.mark.parametrize("how", ["plain", "coroutine", "raw", "later", "nonsense"])
@on_both_loops
async def test_any_other_exception_becomes_unknown_server_error_and_is_logged(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    def plain(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        raise ZeroDivisionError("our own bug")

    async def coroutine(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        raise ZeroDivisionError("our own bug")

    def nonsense(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        return "our own bug"  # type: ignore[return-value]

    def raw(request: Request) -> None:
        raise ZeroDivisionError("our own bug")

    def later(request: Request) -> None:
        asyncio.get_running_loop().call_soon(request.fail, ZeroDivisionError("our own bug"))

    broker = Broker()
    if how in ("raw", "later"):
        broker.dispatcher.register_raw(ApiKey.HEARTBEAT, raw if how == "raw" else later)
    else:
        handlers: dict[str, Callable[[RequestContext, Any], Any]] = {
            "plain": plain,
            "coroutine": coroutine,
            "nonsense": nonsense,
        }
        broker.dispatcher.register(ApiKey.HEARTBEAT, handlers[how])
    async with run_broker(broker):
        client = await broker.connect()
        with caplog.at_level(logging.ERROR):
            response = await send_request(client, HeartbeatRequest(), 4)
        assert response == HeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        (record,) = caplog.records
        assert record.exc_info is not None
        assert "our own bug" in str(record.exc_info[1])
        assert await send_request(client, HeartbeatRequest(), 4) == response


@on_both_loops
async def test_an_error_without_top_level_code_is_set_for_every_requested_item() -> None:
    def handler(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "ask node 3")

    broker = Broker()
    broker.dispatcher.register(ApiKey.CREATE_TOPICS, handler)
    async with run_broker(broker):
        client = await broker.connect()
        request = CreateTopicsRequest(topics=(CreatableTopic(name="a"), CreatableTopic(name="b")))
        response = await send_request(client, request, 7)
        assert isinstance(response, CreateTopicsResponse)
        assert [(topic.name, topic.error_code, topic.error_message) for topic in response.topics] == [
            ("a", ErrorCode.NOT_CONTROLLER, "ask node 3"),
            ("b", ErrorCode.NOT_CONTROLLER, "ask node 3"),
        ]


@on_both_loops
async def test_a_response_that_its_version_cannot_encode_is_an_unknown_server_error() -> None:
    def handler(context: RequestContext, request: HeartbeatRequest) -> ApiMessage:
        return ListGroupsResponse()

    broker = Broker()
    broker.dispatcher.register(ApiKey.HEARTBEAT, handler)
    async with run_broker(broker):
        client = await broker.connect()
        response = await send_request(client, HeartbeatRequest(), 4)
        assert response == HeartbeatResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)


@on_both_loops
async def test_a_failed_produce_without_acks_closes_the_connection() -> None:
    def raw(request: Request) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "disk gone")

    data = (TopicProduceData(name="t", partition_data=(PartitionProduceData(index=3),)),)
    broker = Broker()
    broker.dispatcher.register_raw(ApiKey.PRODUCE, raw)
    async with run_broker(broker):
        client, fire_and_forget = await broker.connect(), await broker.connect()
        response = await send_request(client, ProduceRequest(acks=1, topic_data=data), 9)
        assert isinstance(response, ProduceResponse)
        partition = response.responses[0].partition_responses[0]
        assert (partition.index, partition.error_code) == (3, ErrorCode.KAFKA_STORAGE_ERROR)
        await send(fire_and_forget, ProduceRequest(acks=0, topic_data=data), 9)
        assert await fire_and_forget.is_closed()


def broken_frames() -> dict[str, bytes]:
    header = struct.pack(">hhih", 12, 4, 7, 1) + b"c"
    return {
        "empty": b"",
        "short header": b"\0\x0c\0",
        "unknown api key": struct.pack(">hhih", 999, 0, 7, -1),
        "negative api key": struct.pack(">hhih", -1, 0, 7, -1),
        "version above": struct.pack(">hhih", 12, 5, 7, -1) + b"\0",
        "version below": struct.pack(">hhih", 12, -1, 7, -1),
        "not served here": struct.pack(">hhih", 19, 7, 7, -1) + b"\0",
        "client id beyond the frame": struct.pack(">hhih", 12, 1, 7, 30_000),
        "tagged fields of the header": header + b"\xff\xff\xff\xff\x7f",
        "empty body": header + b"\0",
        "string beyond the body": header + b"\0" + b"\x7f",
    }


@pytest.mark.parametrize("kind", broken_frames())
@on_both_loops
async def test_a_malformed_request_closes_only_its_connection_and_is_logged_once(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker()
    broker.dispatcher.register(ApiKey.HEARTBEAT, heartbeat)
    async with run_broker(broker):
        bad, good = await broker.connect(), await broker.connect()
        body = broken_frames()[kind]
        good_request = encode_request(ApiKey.HEARTBEAT, 4, 7, "c", HeartbeatRequest())
        with caplog.at_level(logging.INFO):
            await bad.send(struct.pack(">i", len(body)) + body + good_request)
            assert await bad.is_closed()
        assert [bad.address in record.getMessage() for record in caplog.records] == [True]
        assert await send_request(good, HeartbeatRequest(group_id="g"), 4) == HeartbeatResponse(
            throttle_time_ms=1
        )


@on_both_loops
async def test_trailing_bytes_of_librdkafka_are_ignored() -> None:
    broker = Broker()
    broker.dispatcher.register(ApiKey.HEARTBEAT, heartbeat)
    async with run_broker(broker):
        client = await broker.connect()
        body = encode_request(ApiKey.HEARTBEAT, 4, 7, "c", HeartbeatRequest(group_id="g"))[4:] + b"???"
        await client.send(struct.pack(">i", len(body)) + body)
        answer = await client.receive()
        assert answer[:4] == struct.pack(">i", 7)


@on_both_loops
async def test_a_body_that_a_raw_handler_cannot_decode_closes_its_connection() -> None:
    def raw(request: Request) -> None:
        raise DecodeError("not a fetch request")

    broker = Broker()
    broker.dispatcher.register_raw(ApiKey.FETCH, raw)
    async with run_broker(broker):
        client = await broker.connect()
        await client.send(struct.pack(">ihhih", 10, ApiKey.FETCH, 4, 7, -1))
        assert await client.is_closed()


@on_both_loops
async def test_produce_versions_that_are_only_advertised_are_refused() -> None:
    broker = Broker()
    broker.dispatcher.register_raw(ApiKey.PRODUCE, lambda request: request.respond(None))
    assert [(api.lowest, api.highest) for api in broker.dispatcher.apis()] == [(0, 13)]
    async with run_broker(broker):
        for version in range(3):
            client = await broker.connect()
            await client.send(struct.pack(">ihhih", 10, ApiKey.PRODUCE, version, 7, -1))
            assert await client.is_closed()


class ThrottleAll:
    """A quota that every request exceeds."""

    is_enabled = True

    def of(self, request: Request) -> Quota:
        return cast(Quota, self)

    def throttle_forwarded(
        self, principal: str, header: RequestHeader, elapsed_ns: int, mutation_throttle_time_ms: int
    ) -> int:
        return 20

    def throttle(self, request: Request, controller_throttle_time_ms: int = 0) -> int:
        request.throttle(20)
        return 20

    def on_handler_return(self, elapsed_ns: int) -> None:
        assert elapsed_ns >= 0


@on_both_loops
async def test_a_throttled_client_gets_the_response_at_once_and_is_then_muted() -> None:
    broker = Broker()
    broker.dispatcher._quotas = ThrottleAll()
    broker.dispatcher.register(ApiKey.LIST_GROUPS, lambda context, request: ListGroupsResponse())
    async with run_broker(broker):
        client = await broker.connect()
        began_s = monotonic()
        for _ in range(3):
            assert await send_request(client, ListGroupsRequest(), 3) == ListGroupsResponse(
                throttle_time_ms=20
            )
        # Two pauses of 20 ms; timers of the event loop count whole milliseconds.
        assert monotonic() - began_s >= 0.038


# ---- ApiVersions


def with_api_versions() -> Broker:
    broker = Broker()
    handler = ApiVersionsHandler(broker.dispatcher.apis, Features)
    broker.dispatcher.register(ApiKey.API_VERSIONS, handler)
    broker.dispatcher.register(ApiKey.HEARTBEAT, heartbeat)
    return broker


@on_both_loops
async def test_api_versions_lists_exactly_the_registered_apis(caplog: pytest.LogCaptureFixture) -> None:
    async with run_broker(with_api_versions()) as broker:
        client = await broker.connect()
        for version in range(5):
            named = {"client_software_name": "h5", "client_software_version": "1.0"} if version >= 3 else {}
            response = await send_request(client, ApiVersionsRequest(**named), version)
            assert isinstance(response, ApiVersionsResponse)
            assert response.error_code == 0
            assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [
                (ApiKey.HEARTBEAT, 0, 4),
                (ApiKey.API_VERSIONS, 0, 4),
            ]
        (connection,) = broker.served.server.connections()
        assert connection.client.software == "h5 1.0"
        with caplog.at_level("WARNING"):
            connection.fail("the test ends it")
        assert vars(caplog.records[-1])["software"] == "h5 1.0"


@pytest.mark.parametrize("version", [5, 99, 32_767, -1])
@on_both_loops
async def test_an_unsupported_api_versions_version_gets_a_version_0_response(
    version: int,
) -> None:
    async with run_broker(with_api_versions()) as broker:
        client = await broker.connect()
        body = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, 1) + b"c" + b"\0whatever comes then"
        if version < 0:
            body = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, 1) + b"c"
        await client.send(struct.pack(">i", len(body)) + body)
        response = await receive(client, ApiKey.API_VERSIONS, 0)
        assert isinstance(response, ApiVersionsResponse)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 4)]
        assert isinstance(await send_request(client, ApiVersionsRequest(), 0), ApiVersionsResponse)


def test_a_handler_may_have_its_own_error_response() -> None:
    request = HeartbeatRequest(group_id="g")
    assert error_response_of(request, 4, ErrorCode.NOT_COORDINATOR, "") == HeartbeatResponse(
        error_code=ErrorCode.NOT_COORDINATOR
    )


def names(count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=tuple(CreatableTopic(name=f"topic-{n}") for n in range(count)))


@on_both_loops
async def test_a_handler_may_respond_in_steps() -> None:
    def handler(context: RequestContext, request: HeartbeatRequest) -> Steps[HeartbeatResponse]:
        yield None
        if request.group_id == "bad":
            raise KafkaError(ErrorCode.INVALID_GROUP_ID, "bad")
        return HeartbeatResponse(throttle_time_ms=len(request.group_id))

    broker = Broker()
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

    broker = Broker(ticking=True)
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
        answer = await receive(large, ApiKey.CREATE_TOPICS, 5)
        assert answer == CreateTopicsResponse(
            topics=tuple(CreatableTopicResult(name=f"topic-{n}") for n in range(5_000))
        )
        # Decoding, answering and encoding, in slices of ten steps.
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

    broker = Broker()
    broker.dispatcher.register(ApiKey.DESCRIBE_GROUPS, handler)
    async with run_broker(broker):
        client = await broker.connect()
        answer = await send_request(client, DescribeGroupsRequest(groups=("a",) * 2_000), 6)
        assert isinstance(answer, DescribeGroupsResponse)
        assert {group.error_code for group in answer.groups} == {ErrorCode.INVALID_REQUEST}
        assert "request fewer" in (answer.groups[0].error_message or "")


@on_both_loops
async def test_the_error_response_to_a_large_request_is_built_in_slices() -> None:
    def handler(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "no")

    broker = Broker(ticking=True)
    broker.dispatcher.register(ApiKey.CREATE_TOPICS, handler)
    async with run_broker(broker):
        client = await broker.connect()
        await send(client, names(2_000), 5)
        answer = await receive(client, ApiKey.CREATE_TOPICS, 5)
        assert isinstance(answer, CreateTopicsResponse)
        assert {topic.error_code for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}
        assert len(answer.topics) == 2_000
        assert broker.dispatcher.slices.slice_count > 200


@on_both_loops
async def test_a_large_request_ends_when_the_client_disconnects() -> None:
    steps = 0

    def handler(context: RequestContext, request: HeartbeatRequest) -> Steps[HeartbeatResponse]:
        nonlocal steps
        while True:
            steps += 1
            yield None

    broker = Broker(ticking=True)
    broker.dispatcher.register(ApiKey.HEARTBEAT, handler)
    async with run_broker(broker):
        client = await broker.connect()
        await send(client, HeartbeatRequest(), 4)
        await eventually(lambda: steps > 100)
        client.reset()
        await eventually(lambda: broker.dispatcher.slices.pending_count == 0)


@on_both_loops
async def test_a_malformed_large_request_closes_its_connection() -> None:
    broker = Broker(ticking=True)
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

    broker = Broker()
    broker.dispatcher.register(ApiKey.JOIN_GROUP, park, uses_slot=False)
    async with run_broker(broker):
        answered, failed = await broker.connect(), await broker.connect()
        protocol = JoinGroupRequestProtocol(name="range", metadata=bytes(1_000_000))
        for number, client in enumerate((answered, failed)):
            await send(client, JoinGroupRequest(protocol_type="consumer", protocols=(protocol,)), 9)
            await eventually(partial(has_length, parked, number + 1))
        # This list and the call itself: nothing else refers to what the message contained.
        assert [sys.getrefcount(metadata[index]) for index in range(2)] == [2, 2]
        buffered = [
            connection.core.buffer.capacity_bytes for connection in broker.served.server.connections()
        ]
        assert max(buffered) <= FIRST_BYTES
        parked[0].set_result(JoinGroupResponse(generation_id=3))
        assert await receive(answered, ApiKey.JOIN_GROUP, 9) == JoinGroupResponse(generation_id=3)
        parked[1].set_exception(KafkaError(ErrorCode.NOT_COORDINATOR, "moved"))
        refused = cast(JoinGroupResponse, await receive(failed, ApiKey.JOIN_GROUP, 9))
        assert refused.error_code == ErrorCode.NOT_COORDINATOR


@on_both_loops
async def test_an_awaited_future_is_cancelled_when_the_client_disconnects() -> None:
    future: asyncio.Future[ApiMessage] = asyncio.get_running_loop().create_future()
    broker = Broker()
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

    broker = Broker(limit=1)
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
    broker = Broker()
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
    monkeypatch.setattr("tidelog.protocol.framing.HEAVY_RESPONSE_BYTES", 10_000)
    member = DescribedGroupMember(member_id="m", member_metadata=bytes(1_000))

    def handler(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
        groups = tuple(DescribedGroup(group_id=name, members=(member,)) for name in request.groups)
        return DescribeGroupsResponse(groups=groups)

    broker = Broker(ticking=True)
    broker.dispatcher.register(ApiKey.DESCRIBE_GROUPS, handler)
    async with run_broker(broker):
        clients = [await broker.connect() for _ in range(3 * HEAVY_MAX)]
        for client in clients:
            await send(client, DescribeGroupsRequest(groups=("a",) * 1_000), 6)
        slices = broker.dispatcher.slices
        await eventually(lambda: slices.heavy_count == HEAVY_MAX and slices.pending_count > HEAVY_MAX)
        for client in clients:
            answer = await receive(client, ApiKey.DESCRIBE_GROUPS, 6)
            assert isinstance(answer, DescribeGroupsResponse)
            assert len(answer.groups) == 1_000
        assert slices.heavy_count == 0
