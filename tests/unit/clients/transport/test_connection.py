from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.support.network.scripted_broker import (
    Close,
    ReceivedRequest,
    ScriptedBroker,
    Silence,
    scripted_brokers,
)
from tests.support.waiting import eventually
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport import connection as connection_module
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.clients.transport.failures import failure
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.framing import encode_response
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tidelog.protocol.registry import ApiKey


@asynccontextmanager
async def connect_to(
    broker: ScriptedBroker, *, negotiate: bool = True, request_timeout_ms: int = 5_000
) -> AsyncIterator[BrokerConnection]:
    environment = SystemEnvironment()
    connection = BrokerConnection(
        node_id=broker.node_id,
        client_id="tests",
        max_response_bytes=100_000,
        request_timeout_ms=request_timeout_ms,
        monotonic_ms=environment.monotonic_ms,
    )
    await environment.connect(lambda: connection, "127.0.0.1", broker.port, None)
    try:
        if negotiate:
            await connection.negotiate()
        yield connection
    finally:
        connection.close()


def cluster_named(name: str) -> MetadataResponse:
    return MetadataResponse(cluster_id=name)


async def test_responses_are_matched_in_order() -> None:
    async with scripted_brokers() as [broker], connect_to(broker) as connection:
        count = iter(range(100))
        broker.handlers[ApiKey.METADATA] = lambda request: cluster_named(f"response {next(count)}")
        futures = [connection.send(MetadataRequest(), 9) for _ in range(20)]
        assert len(connection.in_flight) == 20
        responses = await asyncio.gather(*futures)
        assert [getattr(response, "cluster_id", None) for response in responses] == [
            f"response {n}" for n in range(20)
        ]
        assert len(connection.in_flight) == 0


async def test_an_older_broker_gets_api_versions_in_its_version() -> None:
    def refuse(request: ReceivedRequest) -> bytes | ApiVersionsResponse:
        if request.version > 1:
            refusal = ApiVersionsResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                api_keys=(ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=1),),
            )
            return encode_response(ApiKey.API_VERSIONS, 0, request.correlation_id, refusal)
        return broker.api_versions()

    async with scripted_brokers() as [broker]:
        broker.handlers[ApiKey.API_VERSIONS] = refuse
        async with connect_to(broker) as connection:
            assert [entry.version for entry in broker.received_requests] == [4, 1]
            assert connection.version_of(ApiKey.METADATA) == 13


async def test_a_late_response_closes_the_connection_and_fails_all_requests() -> None:
    async with scripted_brokers() as [broker], connect_to(broker, request_timeout_ms=60) as connection:
        broker.handlers[ApiKey.METADATA] = lambda request: Silence
        patient = connection.send(MetadataRequest(), 9, timeout_ms=60_000)
        impatient = connection.send(MetadataRequest(), 9)
        for future in (patient, impatient):
            with pytest.raises(KafkaError, match="Metadata within 60 ms") as caught:
                await future
            assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        assert not connection.is_open


async def test_a_lost_connection_fails_requests_in_flight_and_refuses_new_ones() -> None:
    async with scripted_brokers() as [broker], connect_to(broker) as connection:
        broker.handlers[ApiKey.METADATA] = lambda request: Close
        with pytest.raises(KafkaError, match=f"node 1 at 127.0.0.1:{broker.port}") as caught:
            await connection.request(MetadataRequest(), MetadataResponse)
        assert caught.value.code is ErrorCode.NETWORK_EXCEPTION
        with pytest.raises(KafkaError) as refused:
            connection.send(MetadataRequest(), 9)
        assert refused.value.code is ErrorCode.NETWORK_EXCEPTION


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ((100_001).to_bytes(4, "big"), "100001"),
        ((8).to_bytes(4, "big") + (99).to_bytes(4, "big") + b"\x00" * 4, "unexpected correlation id 99"),
        ((5).to_bytes(4, "big") + b"\x00\x00\x00\x02\x00", "MetadataResponse"),
        ((2).to_bytes(4, "big") + b"\x00\x00", "response header"),
    ],
    ids=["frame over the bound", "wrong correlation id", "truncated response", "truncated header"],
)
async def test_an_undecodable_response_closes_the_connection_with_a_reason(
    frame: bytes, complaint: str
) -> None:
    async with scripted_brokers() as [broker], connect_to(broker) as connection:
        broker.handlers[ApiKey.METADATA] = lambda request: frame
        with pytest.raises(KafkaError, match=complaint) as caught:
            await connection.request(MetadataRequest(), MetadataResponse, highest_version=9)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert not connection.is_open


async def test_a_cancelled_request_does_not_affect_later_ones() -> None:
    async with scripted_brokers() as [broker], connect_to(broker) as connection:
        broker.handlers[ApiKey.METADATA] = lambda request: cluster_named("c")
        abandoned = connection.send(MetadataRequest(), 9)
        abandoned.cancel()
        response = await connection.request(MetadataRequest(), MetadataResponse)
        assert response.cluster_id == "c"


async def test_an_unexpected_response_closes_the_connection() -> None:
    async with scripted_brokers() as [broker], connect_to(broker) as connection:
        unexpected = (8).to_bytes(4, "big") + b"\x00" * 8
        twice = encode_response(ApiKey.METADATA, 9, 2, cluster_named("c")) + unexpected
        broker.handlers[ApiKey.METADATA] = lambda request: twice
        await connection.request(MetadataRequest(), MetadataResponse, highest_version=9)
        await eventually(lambda: not connection.is_open)


def test_an_unknown_error_code_is_shown_by_number() -> None:
    error = failure(9_999, "commit of tides-0")
    assert error.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert "9999" in str(error)
    assert "tides-0" in str(error)


async def test_requests_wait_while_unsent_bytes_accumulate() -> None:
    async with scripted_brokers() as [broker], connect_to(broker) as connection:
        woken: list[bool] = []
        connection.call_when_writable(lambda: woken.append(True))
        assert connection.can_send_more(5)
        connection.pause_writing()
        assert not connection.can_send_more(5)
        connection.resume_writing()
        assert connection.can_send_more(5)
        assert woken == [True]


async def test_a_connection_that_has_used_all_correlation_ids_is_closed_and_sends_nothing_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with scripted_brokers() as [broker], connect_to(broker) as connection:
        monkeypatch.setattr(connection_module, "_CORRELATION_ID_MAX", 1)
        with pytest.raises(KafkaError, match="has used all correlation ids") as caught:
            connection.send(MetadataRequest(), 9)
        assert caught.value.code is ErrorCode.NETWORK_EXCEPTION
        assert not connection.is_open
        assert not len(connection.in_flight)
