"""The gate of a SASL listener over a real socket: accepted clients and closed connections."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.network.loopback_server import frame
from tests.support.security.gate import ALICE, CONFIG, LIMITED, CountedPasswords, connect, serve_with_gate
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.protocol.registry import APIS, ApiKey
from tidelog.protocol.schema import ApiMessage
from tidelog.security.oauthbearer.messages import FAILURE_ACKNOWLEDGEMENT, encode_client_first
from tidelog.security.oauthbearer.token import BearerToken, TokenError
from tidelog.security.scram.client import ScramClient
from tidelog.security.scram.credentials import ScramMechanism


async def test_a_client_with_the_right_plain_password_is_served() -> None:
    async with serve_with_gate() as gate:
        response = await gate.handshake()
        assert (response.error_code, response.mechanisms) == (0, ("PLAIN", "SCRAM-SHA-256"))
        outcome = await gate.authenticate(ALICE)
        assert (outcome.error_code, outcome.auth_bytes, outcome.session_lifetime_ms) == (0, b"", 0)
        assert await gate.is_served()
        assert gate.served == [(3, "User:alice")]


async def test_api_versions_is_served_before_authentication() -> None:
    async with serve_with_gate() as gate:
        await gate.send(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
        assert await gate.client.receive() == b"served"
        assert gate.served == [(18, "User:ANONYMOUS")]
        await gate.handshake()
        assert (await gate.authenticate(ALICE)).error_code == 0


async def test_api_versions_is_served_once_before_authentication() -> None:
    """Otherwise the node would encode responses for clients without credentials all the time."""
    async with serve_with_gate() as gate:
        for version in (APIS[ApiKey.API_VERSIONS].highest, 0):
            await gate.send(
                ApiVersionsRequest(client_software_name="a", client_software_version="1"), version
            )
            if version:
                assert await gate.client.receive() == b"served"
        assert await gate.client.is_closed()
        assert gate.authentications.failed == 1


async def test_api_versions_is_served_again_after_an_unsupported_version() -> None:
    async with serve_with_gate() as gate:
        for version, tagged_fields in ((99, b"\0"), (0, b"")):
            body = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 7, -1) + tagged_fields
            await gate.client.send(len(body).to_bytes(4, "big") + body)
            assert await gate.client.receive() == b"served"
        await gate.handshake()
        assert (await gate.authenticate(ALICE)).error_code == 0


@pytest.mark.parametrize("version", [0, 1])
async def test_every_version_of_sasl_authenticate(version: int) -> None:
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        response = await gate.authenticate(ALICE, version)
        assert (response.error_code, response.session_lifetime_ms) == (0, 5000 if version else 0)


async def test_messages_are_frames_after_a_handshake_of_version_0() -> None:
    async with serve_with_gate() as gate:
        assert (await gate.handshake(version=0)).error_code == 0
        assert await gate.client.send_request(ALICE) == b""
        assert await gate.is_served()
        assert gate.served == [(3, "User:alice")]


async def test_a_failed_frame_closes_the_connection() -> None:
    async with serve_with_gate() as gate:
        await gate.handshake(version=0)
        await gate.client.send(frame(b"\0alice\0wrong"))
        assert await gate.client.is_closed()


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
    async with serve_with_gate() as gate:
        await gate.send(*request_of())
        assert await gate.client.is_closed()
        assert gate.served == []


@pytest.mark.parametrize(
    "message", [MetadataRequest(), ApiVersionsRequest(), SaslHandshakeRequest(mechanism="PLAIN")]
)
async def test_other_requests_during_the_exchange_close_the_connection(message: ApiMessage) -> None:
    async with serve_with_gate() as gate:
        await gate.handshake()
        await gate.send(message, 1)
        assert await gate.client.is_closed()
        assert gate.served == []


async def test_pipelined_requests_are_not_served_after_a_failure() -> None:
    async with serve_with_gate() as gate:
        await gate.handshake()
        await gate.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong"), 2)
        await gate.send(MetadataRequest(), 9)
        response = await gate.receive(SaslAuthenticateResponse, 2)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await gate.client.is_closed()
        assert gate.served == []


@pytest.mark.parametrize("mechanism", ["GSSAPI", "SCRAM-SHA-512", "plain", ""])
async def test_a_mechanism_that_is_not_enabled(mechanism: str) -> None:
    async with serve_with_gate() as gate:
        response = await gate.handshake(mechanism)
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == CONFIG.mechanisms
        assert await gate.client.is_closed()


async def test_unknown_user_and_wrong_password_get_the_same_response() -> None:
    responses = set()
    for message in (b"\0alice\0wrong", b"\0eve\0geheim"):
        async with serve_with_gate() as gate:
            await gate.handshake()
            responses.add(await gate.authenticate(message))
            assert await gate.client.is_closed()
    (response,) = responses
    assert response.error_message == "Authentication failed: Invalid username or password"


async def test_an_unknown_user_of_scram_fails_with_its_proof() -> None:
    async with serve_with_gate() as gate:
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, "eve", "x", "abc")
        await gate.handshake("SCRAM-SHA-256")
        first = await gate.authenticate(client.first())
        assert first.error_code == 0
        response = await gate.authenticate(client.respond(first.auth_bytes))
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message == (
            "Authentication failed during authentication due to invalid credentials "
            "with SASL mechanism SCRAM-SHA-256"
        )
        assert await gate.client.is_closed()


async def test_the_response_to_a_failure_is_delayed() -> None:
    async with serve_with_gate(replace(CONFIG, failure_delay_ms=300)) as gate:
        await gate.handshake()
        started = asyncio.get_running_loop().time()
        await gate.authenticate(b"\0alice\0wrong")
        assert asyncio.get_running_loop().time() - started >= 0.29


async def test_a_million_password_guesses_at_a_bounded_rate() -> None:
    """Each delay allows as many guesses as an address has connections, also if it closes them at once."""
    passwords = CountedPasswords(alice="geheim")
    config = replace(CONFIG, plain_users=passwords, failure_delay_ms=3_600_000)
    async with serve_with_gate(config, connections_per_address=6) as gate:
        gate.client.close()
        await eventually(lambda: not list(gate.server.connections()))
        assert [await gate.guess(passwords) for _ in range(50)] == [True] * 6 + [False] * 44
        assert passwords.guesses == 6


async def test_an_address_can_guess_again_after_the_delay() -> None:
    passwords = CountedPasswords(alice="geheim")
    config = replace(CONFIG, plain_users=passwords, failure_delay_ms=1)
    async with serve_with_gate(config, connections_per_address=1) as gate, asyncio.timeout(TIMEOUT_S):
        gate.client.close()
        while passwords.guesses < 3:
            await gate.guess(passwords)
        assert passwords.guesses == 3


def reject_token(value: str) -> BearerToken:
    raise TokenError("the signature is wrong")


@pytest.mark.parametrize("is_acknowledged", [True, False])
async def test_a_rejected_token_counts_once_also_if_the_client_disconnects_before_its_acknowledgement(
    is_acknowledged: bool,
) -> None:
    config = replace(
        CONFIG,
        mechanisms=("OAUTHBEARER",),
        reauthentication_ms={"OAUTHBEARER": 0},
        failure_delay_ms=3_600_000,
    )
    async with serve_with_gate(config, connections_per_address=1, validate_token=reject_token) as gate:
        await gate.handshake("OAUTHBEARER")
        rejected = await gate.authenticate(encode_client_first("token", {}))
        assert rejected.error_code == 0 and b"invalid_token" in rejected.auth_bytes
        assert gate.authentications.failed == 1
        if is_acknowledged:
            await gate.send(SaslAuthenticateRequest(auth_bytes=FAILURE_ACKNOWLEDGEMENT), 2)
        gate.client.reset()
        await eventually(lambda: not list(gate.server.connections()))
        assert gate.authentications.failed == 1
        # The address has no other connection until the end of the delay.
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await replace(gate, client=await connect(gate.server)).handshake("OAUTHBEARER")


@pytest.mark.parametrize("data", [b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", struct.pack(">i", 1001)])
async def test_cve_2022_34917_frames_before_authentication_are_small(data: bytes) -> None:
    async with serve_with_gate() as gate:
        await gate.client.send(data)
        assert await gate.client.is_closed()


async def test_large_frames_are_allowed_after_authentication() -> None:
    async with serve_with_gate() as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        assert await gate.client.send_request(b"\0\3" + bytes(5000)) == b"served"


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\0\x11", b"\x60\x82\0\0", b"\0\x11\0\1\0\0\0\1\xff\xff", b"\0\x11\x7f\xff" + bytes(20)],
)
async def test_garbage_closes_the_connection(data: bytes) -> None:
    async with serve_with_gate() as gate:
        await gate.client.send(frame(data))
        assert await gate.client.is_closed()


async def test_cve_2026_33558_failures_are_logged_without_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with serve_with_gate() as gate:
        await gate.handshake()
        response = await gate.authenticate(b"\0alice\0canary-password")
        assert await gate.client.is_closed()
    assert "Invalid username or password" in caplog.text
    assert "canary" not in caplog.text + repr(response) + repr(CONFIG)
    assert "geheim" not in caplog.text + repr(CONFIG)
