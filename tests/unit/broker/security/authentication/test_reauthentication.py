"""Sessions of a SASL listener: expiration, re-authentication (KIP-368), changed users, tokens (KIP-48)."""

from __future__ import annotations

from dataclasses import replace

from tests.support.security.gate import ALICE, CONFIG, LIMITED, SECRET_KEY, GateFixture, serve_with_gate
from tidelog.broker.network.authentication_counters import WINDOW_MS
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.security.delegation_token import token_hmac, token_password
from tidelog.security.plain import encode_plain
from tidelog.security.scram.client import ScramClient
from tidelog.security.scram.credentials import ScramMechanism

# ---- re-authentication (KIP-368)


async def test_a_session_expires() -> None:
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        assert (await gate.authenticate(ALICE)).session_lifetime_ms == 5000
        gate.clock.advance_ns(5000 * 1_000_000)
        assert await gate.is_served()
        gate.clock.advance_ns(1 * 1_000_000)
        assert not await gate.is_served()


async def test_an_expired_session_is_counted_and_is_no_failure() -> None:
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        gate.clock.advance_ns(5001 * 1_000_000)
        assert not await gate.is_served()
        assert (gate.authentications.sessions_expired, gate.authentications.failed) == (1, 0)


async def test_authentications_are_counted_once_for_each_connection() -> None:
    async with serve_with_gate(LIMITED) as gate:
        counters = gate.authentications
        await gate.handshake("SCRAM-SHA-256")
        assert (counters.succeeded, counters.failed) == (0, 0)
        await gate.authenticate(b"garbage")
        assert (counters.succeeded, counters.failed, counters.failed_reauthentications) == (0, 1, 0)
    async with serve_with_gate(LIMITED) as gate:
        counters = gate.authentications
        await gate.handshake()
        await gate.authenticate(ALICE)
        assert (counters.succeeded, counters.succeeded_without_reauthentication) == (1, 0)
        assert await gate.is_served()
        assert counters.succeeded == 1


async def test_a_client_with_sasl_authenticate_0_counts_as_one_that_cannot_authenticate_again() -> None:
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        await gate.authenticate(ALICE, version=0)
        counters = gate.authentications
        assert (counters.succeeded, counters.succeeded_without_reauthentication) == (1, 1)


async def test_re_authentications_are_counted_with_their_time() -> None:
    async with serve_with_gate(LIMITED) as gate:
        counters = gate.authentications
        await gate.handshake()
        await gate.authenticate(ALICE)
        for duration_ms in (30, 10):
            gate.clock.advance_ns(4000 * 1_000_000)
            await gate.handshake()
            gate.clock.advance_ns(duration_ms * 1_000_000)
            await gate.authenticate(ALICE)
        assert (counters.succeeded, counters.reauthentications, counters.reauthentication_ms) == (1, 2, 40)
        now_ms = gate.clock.monotonic_ms()
        assert counters.longest_reauthentication_ms(now_ms) == 30
        assert counters.longest_reauthentication_ms(now_ms + 2 * WINDOW_MS) == 0
        gate.clock.advance_ns(4000 * 1_000_000)
        await gate.handshake()
        await gate.authenticate(encode_plain("alice", "wrong"))
        assert (counters.failed, counters.failed_reauthentications) == (0, 1)


async def test_a_client_authenticates_again() -> None:
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        for _ in range(3):
            gate.clock.advance_ns(4000 * 1_000_000)
            assert (await gate.handshake()).error_code == 0
            assert (await gate.authenticate(ALICE)).session_lifetime_ms == 5000
            assert await gate.is_served()


async def test_changed_users_apply_to_the_next_authentication() -> None:
    changed = replace(LIMITED, plain_users={"alice": "new password"})
    async with serve_with_gate(LIMITED) as gate:
        gate.reconfigure(changed)
        await gate.handshake()
        response = await gate.authenticate(ALICE)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


async def test_changed_users_apply_when_a_client_authenticates_again() -> None:
    changed = replace(LIMITED, plain_users={"alice": "new password"})
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        gate.reconfigure(changed)
        assert await gate.is_served()
        gate.clock.advance_ns(4000 * 1_000_000)
        await gate.handshake()
        response = await gate.authenticate(encode_plain("alice", "new password"))
        assert (response.error_code, response.session_lifetime_ms) == (0, 5000)
        assert await gate.is_served()


async def test_a_change_during_an_exchange_applies_to_the_next_one() -> None:
    async with serve_with_gate() as gate:
        await gate.handshake()
        gate.reconfigure(replace(CONFIG, mechanisms=("SCRAM-SHA-256",), plain_users={}))
        assert (await gate.authenticate(ALICE)).error_code == 0
        assert await gate.is_served()


async def test_a_principal_cannot_change() -> None:
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        gate.clock.advance_ns(4000 * 1_000_000)
        await gate.handshake()
        response = await gate.authenticate(encode_plain("bob", "secret"))
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message is not None and "Cannot change principals" in response.error_message
        assert await gate.client.is_closed()


async def test_a_mechanism_cannot_change() -> None:
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        response = await gate.handshake("SCRAM-SHA-256")
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert await gate.client.is_closed()


async def test_a_request_during_re_authentication_closes_the_connection() -> None:
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        await gate.handshake()
        assert not await gate.is_served()


async def test_a_handshake_within_a_second_or_without_a_limit_is_an_ordinary_request() -> None:
    async with serve_with_gate(LIMITED) as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        await gate.handshake()
        await gate.authenticate(ALICE)
        gate.clock.advance_ns(999 * 1_000_000)
        await gate.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert await gate.client.receive() == b"served"
    async with serve_with_gate() as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        await gate.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert await gate.client.receive() == b"served"
        assert gate.served == [(17, "User:alice")]


# ---- delegation tokens (KIP-48)


async def log_in_by_token(gate: GateFixture, token_id: str = "token-1") -> SaslAuthenticateResponse:
    """Authenticate with the password of token-1."""
    password = token_password(token_hmac(SECRET_KEY, "token-1"))
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, token_id, password, "abc", is_token=True)
    await gate.handshake("SCRAM-SHA-256")
    first = await gate.authenticate(client.first())
    assert first.error_code == 0
    return await gate.authenticate(client.respond(first.auth_bytes))


async def test_a_client_with_a_token_is_its_owner_until_the_token_expires() -> None:
    async with serve_with_gate() as gate:
        response = await log_in_by_token(gate)
        assert (response.error_code, response.session_lifetime_ms) == (0, 10_000)
        assert await gate.is_served()
        assert (gate.served, gate.with_token) == ([(3, "User:alice")], [True])
        gate.clock.advance_ns(10_001 * 1_000_000)
        assert not await gate.is_served()


async def test_the_session_of_a_token_ends_at_the_limit_of_the_listener_if_that_is_earlier() -> None:
    async with serve_with_gate(LIMITED) as gate:
        assert (await log_in_by_token(gate)).session_lifetime_ms == 5000
        gate.clock.advance_ns(6000 * 1_000_000)
        assert (await log_in_by_token(gate)).session_lifetime_ms == 4000


async def test_a_client_without_a_token_is_not_marked() -> None:
    async with serve_with_gate() as gate:
        await gate.handshake()
        await gate.authenticate(ALICE)
        assert await gate.is_served()
        assert gate.with_token == [False]


async def test_expired_and_unknown_tokens_get_the_response_of_an_unknown_user() -> None:
    responses = set()
    for token_id, expires in (("token-1", True), ("token-2", False)):
        async with serve_with_gate() as gate:
            if expires:
                gate.clock.advance_ns(10_001 * 1_000_000)
            responses.add(await log_in_by_token(gate, token_id))
            assert await gate.client.is_closed()
    (response,) = responses
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert response.error_message == (
        "Authentication failed during authentication due to invalid credentials "
        "with SASL mechanism SCRAM-SHA-256"
    )
