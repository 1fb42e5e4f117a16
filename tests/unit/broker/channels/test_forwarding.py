"""Forwarding of requests to the controller (KIP-590)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.yields import STEPS_PER_SLICE, counted_slices
from tests.support.messages.request_contexts import request_context
from tests.support.network.controllers import CLOCK, FakeController, FakeQuorum, channel_to, quorum_of
from tests.support.network.loopback_server import Client, RunningServer, running_server
from tests.support.waiting import eventually
from tidelog.base.sampled_rate import Windows
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.channels.forwarding import Forwarder
from tidelog.broker.controller.handlers.envelope import EnvelopeHandler
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.network.request_metrics import RequestMetrics
from tidelog.broker.quotas.request_quotas import (
    EXEMPT_ON_CONTROLLERS,
    NANOSECONDS_PER_PERCENT,
    RequestQuotas,
)
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.errors import DecodeError, ErrorCode, KafkaError
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from tidelog.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.principal_data import decode_principal, encode_principal
from tidelog.protocol.registry import APIS, FORWARDABLE, ApiKey, response_type
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import BYTES_PER_STEP

CREATE = CreateTopicsRequest(topics=(CreatableTopic(name="tides", num_partitions=3, replication_factor=1),))


@dataclass
class Broker:
    """A broker that forwards CreateTopics and ElectLeaders."""

    forwarder: Forwarder
    served: RunningServer


@asynccontextmanager
async def broker_of(
    quorum: FakeQuorum,
    local: FakeController | None = None,
    timeout_ms: int = 60_000,
    slices: Slices | None = None,
) -> AsyncIterator[Broker]:
    tasks = RequestChannel(100)
    async with channel_to(quorum, local) as channel:
        slices = slices or Slices(CLOCK)
        forwarder = Forwarder(channel, tasks, slices, CLOCK, timeout_ms)
        dispatcher = Dispatcher(tasks, RequestMetrics(), CLOCK, slices, quotas=None, guard=None)
        dispatcher.register_raw(ApiKey.CREATE_TOPICS, forwarder.handle)
        dispatcher.register_raw(ApiKey.ELECT_LEADERS, forwarder.handle)
        async with running_server(dispatcher.dispatch) as served:
            yield Broker(forwarder, served)
        await tasks.close()


async def send_request(client: Client, message: ApiMessage, version: int, correlation_id: int = 9) -> Any:
    await client.send(encode_request(message.api_key, version, correlation_id, "client", message))
    frame = memoryview(await client.receive())
    response_id, position = read_response_header(frame, message.api_key, version)
    assert response_id == correlation_id
    return decode(response_type(message.api_key), frame[position:], version)


def creates(controller: FakeController) -> list[RequestContext]:
    contexts: list[RequestContext] = []

    def handler(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        contexts.append(context)
        topics = tuple(
            CreatableTopicResult(name=topic.name, num_partitions=controller.node_id)
            for topic in request.topics
        )
        return CreateTopicsResponse(topics=topics)

    controller.register(ApiKey.CREATE_TOPICS, handler)
    return contexts


@pytest.mark.parametrize("version", range(2, 8))
async def test_the_controllers_response_reaches_the_client_unchanged(version: int) -> None:
    async with quorum_of(1) as quorum, broker_of(quorum) as broker:
        contexts = creates(quorum.controllers[0])
        client = await broker.served.connect()
        response = await send_request(client, CREATE, version)
        assert [topic.name for topic in response.topics] == ["tides"]
        [context] = contexts
        assert context.header == (ApiKey.CREATE_TOPICS, version, 9, "client")
        assert (context.principal, context.client_host) == ("User:ANONYMOUS", "/127.0.0.1")


async def test_the_broker_of_the_active_controller_forwards_locally() -> None:
    local = FakeController(1)
    creates(local)
    async with quorum_of(0) as quorum, broker_of(quorum, local) as broker:
        response = await send_request(await broker.served.connect(), CREATE, 7)
        assert response.topics[0].num_partitions == 1


async def test_a_request_during_a_controller_change_gets_one_response_of_the_new_one() -> None:
    async with quorum_of(2) as quorum, broker_of(quorum) as broker:
        first, second = quorum.controllers
        reached, go = asyncio.Event(), asyncio.Event()

        async def respond_late(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
            reached.set()
            await go.wait()
            return CreateTopicsResponse()

        first.register(ApiKey.CREATE_TOPICS, respond_late)
        creates(second)
        client = await broker.served.connect()
        asking = asyncio.create_task(send_request(client, CREATE, 7))
        await reached.wait()
        quorum.move(second)
        go.set()
        response = await asking
        assert response.topics[0].num_partitions == 2
        # The next response on this connection belongs to the next request: none was sent twice.
        assert (await send_request(client, CREATE, 7, 10)).topics[0].num_partitions == 2


async def test_a_broker_whose_local_controller_resigns_uses_the_next_one() -> None:
    async with quorum_of(2) as quorum:
        first, second = quorum.controllers
        async with broker_of(quorum, first) as broker:

            async def resign(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
                quorum.move(second)
                return CreateTopicsResponse()

            first.register(ApiKey.CREATE_TOPICS, resign)
            creates(second)
            response = await send_request(await broker.served.connect(), CREATE, 7)
            assert response.topics[0].num_partitions == 2


async def test_without_a_controller_the_response_of_the_api_has_request_timed_out() -> None:
    async with quorum_of(1) as quorum, broker_of(quorum, timeout_ms=30) as broker:
        quorum.leader = None
        client = await broker.served.connect()
        response = await send_request(client, CREATE, 7)
        assert [topic.error_code for topic in response.topics] == [ErrorCode.REQUEST_TIMED_OUT]
        elected = await send_request(client, ElectLeadersRequest(), 2)
        assert elected.error_code == ErrorCode.REQUEST_TIMED_OUT


async def test_errors_of_the_handler_are_returned_to_the_client() -> None:
    async with quorum_of(1) as quorum, broker_of(quorum) as broker:

        def refuse(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")

        quorum.controllers[0].register(ApiKey.ELECT_LEADERS, refuse)
        response = await send_request(await broker.served.connect(), ElectLeadersRequest(), 2)
        assert response.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_a_version_the_controller_does_not_support_closes_the_connection() -> None:
    async with quorum_of(1) as quorum, broker_of(quorum) as broker:
        client = await broker.served.connect()
        await client.send(encode_request(ApiKey.CREATE_TOPICS, 7, 1, None, CREATE))
        assert await client.is_closed()


async def test_an_unreadable_body_closes_the_connection() -> None:
    async with quorum_of(1) as quorum, broker_of(quorum) as broker:
        creates(quorum.controllers[0])
        client = await broker.served.connect()
        frame = encode_request(ApiKey.CREATE_TOPICS, 7, 1, None, CREATE)[4:-9]
        await client.send(len(frame).to_bytes(4, "big") + frame)
        assert await client.is_closed()


async def test_a_disconnected_client_does_not_affect_others() -> None:
    async with quorum_of(1) as quorum, broker_of(quorum) as broker:
        reached, go = asyncio.Event(), asyncio.Event()

        async def respond_late(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
            reached.set()
            await go.wait()
            return CreateTopicsResponse()

        quorum.controllers[0].register(ApiKey.CREATE_TOPICS, respond_late)
        leaves, stays = await broker.served.connect(), await broker.served.connect()
        await leaves.send(encode_request(ApiKey.CREATE_TOPICS, 7, 1, None, CREATE))
        await reached.wait()
        leaves.reset()
        await eventually(lambda: len(broker.served.server.listeners["PLAINTEXT"].connections) == 1)
        go.set()
        assert (await send_request(stays, CREATE, 7)).topics == ()


async def test_a_message_is_forwarded_with_the_clients_principal() -> None:
    async with quorum_of(1) as quorum, broker_of(quorum) as broker:
        contexts = creates(quorum.controllers[0])
        context = request_context(5, api_key=ApiKey.CREATE_TOPICS)
        context.principal = "User:alice"
        response = await broker.forwarder.forward(context, CREATE, CreateTopicsResponse)
        assert response.topics[0].name == "tides"
        assert (contexts[0].principal, contexts[0].header.api_version) == ("User:alice", 5)


async def test_a_large_request_is_copied_in_slices() -> None:
    pieces = 2 * STEPS_PER_SLICE
    slices, tail = counted_slices(), bytes(pieces * BYTES_PER_STEP)
    async with quorum_of(1) as quorum, broker_of(quorum, slices=slices) as broker:
        creates(quorum.controllers[0])
        client = await broker.served.connect()
        frame = encode_request(ApiKey.CREATE_TOPICS, 7, 9, "client", CREATE)
        # Bytes after the request are ignored.
        await client.send((len(frame) - 4 + len(tail)).to_bytes(4, "big") + frame[4:] + tail)
        await eventually(lambda: slices.slice_count >= 2)
        assert await client.receive()


async def test_a_message_of_very_many_topics_is_encoded_and_its_response_decoded_in_slices() -> None:
    """40,000 resources that were forwarded in one step blocked the event loop for 50 ms."""
    many = 1_000
    topics = tuple(CreatableTopic(name=f"t{number}", num_partitions=1) for number in range(many))
    request = CreateTopicsRequest(topics=topics)
    slices = counted_slices()
    async with quorum_of(1) as quorum, broker_of(quorum, slices=slices) as broker:
        creates(quorum.controllers[0])
        context = request_context(5, api_key=ApiKey.CREATE_TOPICS)
        response = await broker.forwarder.forward(context, request, CreateTopicsResponse)
        assert [topic.name for topic in response.topics] == [topic.name for topic in topics]
        assert slices.slice_count >= 2 * many // STEPS_PER_SLICE


async def test_a_broker_advertises_only_versions_the_controller_supports() -> None:
    create, elect, metadata = (APIS[key] for key in (ApiKey.CREATE_TOPICS, ApiKey.ELECT_LEADERS, 3))
    async with quorum_of(1) as quorum, broker_of(quorum) as broker:
        creates(quorum.controllers[0])
        offered = [create, elect, metadata]
        assert broker.forwarder.supported_apis(offered) == offered
        entry = quorum.controllers[0].dispatcher._entries[ApiKey.CREATE_TOPICS]
        entry.api = replace(entry.api, highest=5)
        await send_request(await broker.served.connect(), CREATE, 5)
        assert broker.forwarder.supported_apis(offered) == [replace(create, highest=5), metadata]


# ---- on the controller


async def envelope_response(controller: FakeController, request: EnvelopeRequest) -> EnvelopeResponse:
    handler = EnvelopeHandler(controller.dispatcher, lambda: controller.active)
    return await handler.handle(request_context(0, api_key=ApiKey.ENVELOPE), request)


def envelope(message: ApiMessage = CREATE, version: int = 7, **changes: Any) -> EnvelopeRequest:
    values: dict[str, Any] = {
        "request_data": encode_request(message.api_key, version, 1, "client", message)[4:],
        "request_principal": encode_principal("User:bob", is_token_authenticated=False),
        "client_host_address": ip_address("10.1.2.3").packed,
    }
    return EnvelopeRequest(**(values | changes))


async def test_an_inner_request_has_the_principal_and_the_address_of_its_client() -> None:
    controller = FakeController(1)
    contexts = creates(controller)
    await envelope_response(controller, envelope())
    await envelope_response(controller, envelope(client_host_address=ip_address("fe80::1").packed))
    assert [context.client_host for context in contexts] == ["/10.1.2.3", "/fe80::1"]
    assert contexts[0].principal == "User:bob"


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (envelope(request_principal=b"\0\1"), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (envelope(request_principal=None), ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE),
        (envelope(client_host_address=b"\1\2\3"), ErrorCode.INVALID_REQUEST),
        (envelope(MetadataRequest(), 9), ErrorCode.INVALID_REQUEST),
        (envelope(envelope(), 0), ErrorCode.INVALID_REQUEST),
        (envelope(request_data=b""), ErrorCode.UNSUPPORTED_VERSION),
        (envelope(request_data=b"\0\x13\0\7\0\0\0\1\xff\xff\0"), ErrorCode.UNSUPPORTED_VERSION),
        (envelope(request_data=b"\0\x13\0\x70\0\0\0\1\xff\xff\0"), ErrorCode.UNSUPPORTED_VERSION),
        (envelope(request_data=b"\x7f\0\0\0\0\0\0\1\xff\xff"), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
async def test_an_invalid_envelope_is_refused(request_: EnvelopeRequest, code: ErrorCode) -> None:
    controller = FakeController(1)
    creates(controller)
    with pytest.raises(KafkaError) as error:
        await envelope_response(controller, request_)
    assert error.value.code is code


async def test_only_the_active_controller_opens_envelopes() -> None:
    controller = FakeController(1, active=False)
    creates(controller)
    with pytest.raises(KafkaError) as error:
        await envelope_response(controller, envelope())
    assert error.value.code is ErrorCode.NOT_CONTROLLER


async def test_not_controller_in_the_inner_response_is_the_error_of_the_envelope() -> None:
    controller = FakeController(1)

    def handler(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        result = CreatableTopicResult(name="tides", error_code=ErrorCode.NOT_CONTROLLER)
        return CreateTopicsResponse(topics=(result,))

    controller.register(ApiKey.CREATE_TOPICS, handler)
    with pytest.raises(KafkaError) as error:
        await envelope_response(controller, envelope())
    assert error.value.code is ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(("mutation_throttle_time_ms", "expected_ms"), [(0, 1_000), (1_500, 1_500)])
async def test_the_time_of_a_forwarded_request_counts_for_its_client_at_the_controller(
    mutation_throttle_time_ms: int, expected_ms: int
) -> None:
    clock = ManualClock()
    quotas = RequestQuotas(clock, Windows(11, 1_000), EXEMPT_ON_CONTROLLERS)
    quotas.update({(("user", "bob"),): {"request_percentage": 1.0}})
    dispatcher = Dispatcher(
        RequestChannel(10), RequestMetrics(), clock, Slices(clock), quotas=quotas, guard=None
    )

    async def create_slowly(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        clock.advance_ns(20 * NANOSECONDS_PER_PERCENT)
        return CreateTopicsResponse(throttle_time_ms=mutation_throttle_time_ms)

    dispatcher.register(ApiKey.CREATE_TOPICS, create_slowly)
    handler = EnvelopeHandler(dispatcher, lambda: True)
    responses = []
    for principal in ("User:bob", "User:carol"):
        encoded_principal = encode_principal(principal, is_token_authenticated=False)
        request = envelope(request_principal=encoded_principal)
        response = await handler.handle(request_context(0, api_key=ApiKey.ENVELOPE), request)
        assert response.response_data is not None
        _, position = read_response_header(memoryview(response.response_data), ApiKey.CREATE_TOPICS, 7)
        responses.append(decode(CreateTopicsResponse, memoryview(response.response_data)[position:], 7))
    assert [each.throttle_time_ms for each in responses] == [expected_ms, mutation_throttle_time_ms]
    ((client, state),) = quotas.request.entities.items()
    assert client.user == "bob"
    assert state.rate.value(clock.monotonic_ms()) > 1
    assert state.throttles == (expected_ms == 1_000)


def test_an_envelope_cannot_contain_a_request_that_brokers_serve() -> None:
    for key in (ApiKey.ENVELOPE, ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA, ApiKey.API_VERSIONS):
        assert key not in FORWARDABLE


# ---- principals


def test_a_principal_equals_kafkas_bytes() -> None:
    anonymous = encode_principal("User:ANONYMOUS", is_token_authenticated=False)
    assert anonymous == b"\0\0\5User\x0aANONYMOUS\0\0"
    token = encode_principal("User:a:b", is_token_authenticated=True)
    assert token == b"\0\0\5User\4a:b\1\0"
    assert decode_principal(token) == ("User:a:b", True)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\1\5User\1\0\0", b"\0\0\5Us"])
def test_invalid_principal_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_principal(data)


def test_an_envelope_round_trips() -> None:
    request = envelope()
    assert decode(EnvelopeRequest, encode(request, 0), 0) == request
