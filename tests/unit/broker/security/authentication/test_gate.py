"""The gate of a SASL listener over a real socket: who gets through, and what closes the connection."""

from __future__ import annotations

import asyncio
import logging
import random
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import listener_config, network_config
from tests.support.metadata.images import image_with_brokers
from tests.support.network.loopback_server import Client, frame
from tidelog.broker.config.sasl_config import SaslListenerConfig
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.security.authentication.exchanges import exchange_factory
from tidelog.broker.security.authentication.gate import GatePorts, SaslGate
from tidelog.broker.security.authentication.scram_credentials import ScramCredentials
from tidelog.protocol.codec import decode
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.schema import ApiMessage
from tidelog.security.plain import encode_plain
from tidelog.security.scram.client import ScramClient
from tidelog.security.scram.credentials import ScramMechanism

MessageT = TypeVar("MessageT", bound=ApiMessage)

CONFIG = SaslListenerConfig(
    mechanisms=("PLAIN", "SCRAM-SHA-256"),
    plain_users={"alice": "geheim", "bob": "secret"},
    reauthentication_ms={"PLAIN": 0, "SCRAM-SHA-256": 0},
    max_receive_bytes=1000,
    failure_delay_ms=1,
)
LIMITED = replace(CONFIG, reauthentication_ms={"PLAIN": 5000, "SCRAM-SHA-256": 5000})
ALICE = encode_plain("alice", "geheim")


@dataclass
class Gated:
    """A server with a gate; `served` are the API key and the principal of admitted requests."""

    client: Client
    clock: ManualClock
    served: list[tuple[int, str]]

    async def send(self, message: ApiMessage, version: int) -> None:
        """Send a request."""
        await self.client.send(bytes(encode_request(message.api_key, version, 7, "test", message)))

    async def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> SaslHandshakeResponse:
        """Choose a mechanism."""
        await self.send(SaslHandshakeRequest(mechanism=mechanism), version)
        return await self.receive(SaslHandshakeResponse, version)

    async def authenticate(self, message: bytes, version: int = 2) -> SaslAuthenticateResponse:
        """Send a message of the mechanism."""
        await self.send(SaslAuthenticateRequest(auth_bytes=message), version)
        return await self.receive(SaslAuthenticateResponse, version)

    async def receive(self, kind: type[MessageT], version: int) -> MessageT:
        """Return the next response."""
        found = memoryview(await self.client.receive())
        _, position = read_response_header(found, kind.api_key, version)
        return decode(kind, found[position:], version)

    async def is_served(self) -> bool:
        """Return whether a request gets through; False if the connection is closed."""
        await self.send(MetadataRequest(), 9)
        try:
            return await self.client.receive() == b"served"
        except asyncio.IncompleteReadError:
            return False


@asynccontextmanager
async def gated(config: SaslListenerConfig = CONFIG) -> AsyncIterator[Gated]:
    """A listener with a gate, and a client that is connected to it."""
    clock, served = ManualClock(), list[tuple[int, str]]()

    def on_request(request: Request) -> None:
        served.append((struct.unpack_from(">h", request.frame)[0], request.principal))
        request.respond(frame(b"served"))

    credentials = ScramCredentials(lambda: image_with_brokers(1), random.Random(1))
    ports = GatePorts(
        clock=clock,
        call_later=asyncio.get_running_loop().call_later,
        on_request=on_request,
        request_bytes_max=1_000_000,
    )
    gate = SaslGate(config, exchange_factory(config, credentials, random.Random(2)), ports)
    server = NetworkServer(network_config())
    limit = config.max_receive_bytes
    server.bind(listener_config("SASL", host="127.0.0.1", unauthenticated_frame_bytes_max=limit), gate.handle)
    await server.start()
    client = Client(*await asyncio.open_connection("127.0.0.1", server.port("SASL")))
    try:
        yield Gated(client, clock, served)
    finally:
        client.writer.close()
        await server.close(0)


async def test_plain() -> None:
    async with gated() as found:
        response = await found.handshake()
        assert (response.error_code, response.mechanisms) == (0, ("PLAIN", "SCRAM-SHA-256"))
        answer = await found.authenticate(ALICE)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
        assert await found.is_served()
        assert found.served == [(3, "User:alice")]


async def test_api_versions_is_served_before_authentication() -> None:
    async with gated() as found:
        await found.send(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        assert await found.client.receive() == b"served"
        assert found.served == [(18, "User:ANONYMOUS")]
        await found.handshake()
        assert (await found.authenticate(ALICE)).error_code == 0


@pytest.mark.parametrize("version", [0, 1])
async def test_every_version_of_sasl_authenticate(version: int) -> None:
    async with gated(LIMITED) as found:
        await found.handshake()
        answer = await found.authenticate(ALICE, version)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 5000 if version else 0)


async def test_messages_are_frames_after_a_handshake_of_version_0() -> None:
    async with gated() as found:
        assert (await found.handshake(version=0)).error_code == 0
        assert await found.client.ask(ALICE) == b""
        assert await found.is_served()
        assert found.served == [(3, "User:alice")]


async def test_a_failed_frame_closes_the_connection() -> None:
    async with gated() as found:
        await found.handshake(version=0)
        await found.client.send(frame(b"\0alice\0wrong"))
        assert await found.client.is_closed()


@pytest.mark.parametrize(
    "request_of",
    [
        lambda: (MetadataRequest(), 9),
        lambda: (SaslAuthenticateRequest(auth_bytes=ALICE), 2),
    ],
)
async def test_other_requests_before_the_handshake_close_the_connection(
    request_of: Callable[[], tuple[ApiMessage, int]],
) -> None:
    async with gated() as found:
        await found.send(*request_of())
        assert await found.client.is_closed()
        assert found.served == []


@pytest.mark.parametrize(
    "message", [MetadataRequest(), ApiVersionsRequest(), SaslHandshakeRequest(mechanism="PLAIN")]
)
async def test_other_requests_during_the_exchange_close_the_connection(message: ApiMessage) -> None:
    async with gated() as found:
        await found.handshake()
        await found.send(message, 1)
        assert await found.client.is_closed()
        assert found.served == []


async def test_pipelined_requests_are_not_served_after_a_failure() -> None:
    async with gated() as found:
        await found.handshake()
        await found.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
        await found.send(MetadataRequest(), 9)
        answer = await found.receive(SaslAuthenticateResponse, 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await found.client.is_closed()
        assert found.served == []


@pytest.mark.parametrize("mechanism", ["GSSAPI", "SCRAM-SHA-512", "plain", ""])
async def test_a_mechanism_that_is_not_enabled(mechanism: str) -> None:
    async with gated() as found:
        response = await found.handshake(mechanism)
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == CONFIG.mechanisms
        assert await found.client.is_closed()


async def test_unknown_user_and_wrong_password_get_the_same_response() -> None:
    answers = set()
    for message in (b"\0alice\0wrong", b"\0eve\0geheim"):
        async with gated() as found:
            await found.handshake()
            answers.add(await found.authenticate(message))
            assert await found.client.is_closed()
    (answer,) = answers
    assert answer.error_message == "Authentication failed: Invalid username or password"


async def test_an_unknown_user_of_scram_fails_with_its_proof() -> None:
    async with gated() as found:
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, "eve", "x", "abc")
        await found.handshake("SCRAM-SHA-256")
        first = await found.authenticate(client.first())
        assert first.error_code == 0
        answer = await found.authenticate(client.respond(first.auth_bytes))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
            "Authentication failed during authentication due to invalid credentials "
            "with SASL mechanism SCRAM-SHA-256"
        )
        assert await found.client.is_closed()


async def test_the_response_to_a_failure_is_delayed() -> None:
    async with gated(replace(CONFIG, failure_delay_ms=300)) as found:
        await found.handshake()
        started = asyncio.get_running_loop().time()
        await found.authenticate(b"\0alice\0wrong")
        assert asyncio.get_running_loop().time() - started >= 0.29


@pytest.mark.parametrize("data", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", struct.pack(">i", 1001)])
async def test_cve_2022_34917_frames_before_authentication_are_small(data: bytes) -> None:
    async with gated() as found:
        await found.client.send(data)
        assert await found.client.is_closed()


async def test_large_frames_are_allowed_after_authentication() -> None:
    async with gated() as found:
        await found.handshake()
        await found.authenticate(ALICE)
        assert await found.client.ask(b"\0\3" + bytes(5000)) == b"served"


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\0\x11", b"\x60\x82\0\0", b"\0\x11\0\1\0\0\0\1\xff\xff", b"\0\x11\x7f\xff" + bytes(20)],
)
async def test_garbage_closes_the_connection(data: bytes) -> None:
    async with gated() as found:
        await found.client.send(frame(data))
        assert await found.client.is_closed()


async def test_cve_2026_33558_failures_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with gated() as found:
        await found.handshake()
        answer = await found.authenticate(b"\0alice\0canary-password")
        assert await found.client.is_closed()
    assert "Invalid username or password" in caplog.text
    assert "canary" not in caplog.text + repr(answer) + repr(CONFIG)
    assert "geheim" not in caplog.text + repr(CONFIG)


# ---- re-authentication (KIP-368)


async def test_a_session_expires() -> None:
    async with gated(LIMITED) as found:
        await found.handshake()
        assert (await found.authenticate(ALICE)).session_lifetime_ms == 5000
        found.clock.advance_ns(5000 * 1_000_000)
        assert await found.is_served()
        found.clock.advance_ns(1 * 1_000_000)
        assert not await found.is_served()


async def test_a_client_authenticates_again() -> None:
    async with gated(LIMITED) as found:
        await found.handshake()
        await found.authenticate(ALICE)
        for _ in range(3):
            found.clock.advance_ns(4000 * 1_000_000)
            assert (await found.handshake()).error_code == 0
            assert (await found.authenticate(ALICE)).session_lifetime_ms == 5000
            assert await found.is_served()


async def test_a_principal_cannot_change() -> None:
    async with gated(LIMITED) as found:
        await found.handshake()
        await found.authenticate(ALICE)
        found.clock.advance_ns(4000 * 1_000_000)
        await found.handshake()
        answer = await found.authenticate(encode_plain("bob", "secret"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message is not None and "Cannot change principals" in answer.error_message
        assert await found.client.is_closed()


async def test_a_mechanism_cannot_change() -> None:
    async with gated(LIMITED) as found:
        await found.handshake()
        await found.authenticate(ALICE)
        response = await found.handshake("SCRAM-SHA-256")
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert await found.client.is_closed()


async def test_a_request_during_re_authentication_closes_the_connection() -> None:
    async with gated(LIMITED) as found:
        await found.handshake()
        await found.authenticate(ALICE)
        await found.handshake()
        assert not await found.is_served()


async def test_a_handshake_within_a_second_or_without_a_limit_is_an_ordinary_request() -> None:
    async with gated(LIMITED) as found:
        await found.handshake()
        await found.authenticate(ALICE)
        await found.handshake()
        await found.authenticate(ALICE)
        found.clock.advance_ns(999 * 1_000_000)
        await found.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert await found.client.receive() == b"served"
    async with gated() as found:
        await found.handshake()
        await found.authenticate(ALICE)
        await found.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert await found.client.receive() == b"served"
        assert found.served == [(17, "User:alice")]
