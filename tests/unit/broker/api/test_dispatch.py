"""Dispatch of frames to handlers and responses: versions, errors, places in the request channel."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, cast

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.messages.error_responses import error_response_of
from tests.support.network.dispatching_broker import (
    HEARTBEAT_HIGHEST,
    DispatchingBroker,
    has_requests,
    heartbeat,
    receive,
    run_broker,
    send,
    send_request,
)
from tests.support.waiting import eventually
from tidelog.broker.api.handlers.api_versions import ApiVersionsHandler, Features
from tidelog.broker.network.request import Quota, Request
from tidelog.broker.network.request_context import RequestContext
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.framing import RequestHeader, encode_request, encode_response
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from tidelog.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.schema import ApiMessage


@on_both_loops
async def test_a_typed_handler_gets_the_message_and_the_connection() -> None:
    contexts: list[RequestContext] = []

    def handler(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        contexts.append(context)
        return heartbeat(context, request)

    broker = DispatchingBroker()
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

    broker = DispatchingBroker()
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

    broker = DispatchingBroker(limit=2)
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

    async def wait_forever(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        await forever.wait()
        return CreateTopicsResponse()

    async def park(context: RequestContext, request: ListGroupsRequest) -> ApiMessage:
        return await parked

    def raw(request: Request) -> None:
        request.respond(
            encode_response(ApiKey.HEARTBEAT, 4, request.header.correlation_id, HeartbeatResponse())
        )

    broker = DispatchingBroker(limit=1)
    broker.dispatcher.register(ApiKey.CREATE_TOPICS, wait_forever)
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
async def test_a_direct_handler_serves_what_it_accepts_and_the_typed_handler_all_other_requests() -> None:
    forever = asyncio.Event()

    def direct(request: Request) -> bool:
        if b"small" not in bytes(request.body):
            return False
        request.respond(
            encode_response(ApiKey.HEARTBEAT, 4, request.header.correlation_id, HeartbeatResponse())
        )
        return True

    async def wait_forever(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
        await forever.wait()
        return ListGroupsResponse()

    broker = DispatchingBroker(limit=1)
    broker.dispatcher.register(ApiKey.HEARTBEAT, heartbeat, direct=direct)
    broker.dispatcher.register(ApiKey.LIST_GROUPS, wait_forever)
    async with run_broker(broker):
        client, full = await broker.connect(), await broker.connect()
        response = await send_request(client, HeartbeatRequest(group_id="other"), 4)
        assert response == HeartbeatResponse(throttle_time_ms=5)
        await send(full, ListGroupsRequest(), 4)
        await eventually(lambda: broker.channel.running_count == 1)
        # It needs no slot of the request channel.
        assert await send_request(client, HeartbeatRequest(group_id="small"), 4) == HeartbeatResponse()
        assert broker.metrics.apis["Heartbeat"].requests[4] == 2
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

    broker = DispatchingBroker(limit=1)
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

    broker = DispatchingBroker()
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


@pytest.mark.parametrize("how", ["plain", "coroutine", "raw", "direct", "later", "nonsense"])
@on_both_loops
async def test_any_other_exception_becomes_unknown_server_error_and_is_logged(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    def plain(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        raise ZeroDivisionError("our own bug")

    async def coroutine(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        raise ZeroDivisionError("our own bug")

    def return_wrong_type(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
        return "our own bug"  # type: ignore[return-value]

    def raw(request: Request) -> None:
        raise ZeroDivisionError("our own bug")

    def direct(request: Request) -> bool:
        raise ZeroDivisionError("our own bug")

    def fail_later(request: Request) -> None:
        asyncio.get_running_loop().call_soon(request.fail, ZeroDivisionError("our own bug"))

    broker = DispatchingBroker()
    if how == "direct":
        broker.dispatcher.register(ApiKey.HEARTBEAT, heartbeat, direct=direct)
    elif how in ("raw", "later"):
        broker.dispatcher.register_raw(ApiKey.HEARTBEAT, raw if how == "raw" else fail_later)
    else:
        handlers: dict[str, Callable[[RequestContext, Any], Any]] = {
            "plain": plain,
            "coroutine": coroutine,
            "nonsense": return_wrong_type,
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

    broker = DispatchingBroker()
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

    broker = DispatchingBroker()
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
    broker = DispatchingBroker()
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
    broker = DispatchingBroker()
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
    broker = DispatchingBroker()
    broker.dispatcher.register(ApiKey.HEARTBEAT, heartbeat)
    async with run_broker(broker):
        client = await broker.connect()
        body = encode_request(ApiKey.HEARTBEAT, 4, 7, "c", HeartbeatRequest(group_id="g"))[4:] + b"???"
        await client.send(struct.pack(">i", len(body)) + body)
        response = await client.receive()
        assert response[:4] == struct.pack(">i", 7)


@on_both_loops
async def test_a_body_that_a_raw_handler_cannot_decode_closes_its_connection() -> None:
    def raw(request: Request) -> None:
        raise DecodeError("not a fetch request")

    broker = DispatchingBroker()
    broker.dispatcher.register_raw(ApiKey.FETCH, raw)
    async with run_broker(broker):
        client = await broker.connect()
        await client.send(struct.pack(">ihhih", 10, ApiKey.FETCH, 4, 7, -1))
        assert await client.is_closed()


@on_both_loops
async def test_produce_versions_that_are_only_advertised_are_refused() -> None:
    broker = DispatchingBroker()
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
    broker = DispatchingBroker()
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


def with_api_versions() -> DispatchingBroker:
    broker = DispatchingBroker()
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
