"""The gate of a SASL listener over a real socket: accepted clients and closed connections."""

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

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.configs import listener_config, network_config
from tests.support.metadata.images import image_after_records, image_with_brokers
from tests.support.network.loopback_server import Client, frame
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.config.sasl_config import SaslListenerConfig
from tidelog.broker.network.authentication_counters import WINDOW_MS, AuthenticationCounters
from tidelog.broker.network.config import UNLIMITED
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.security.authentication.exchanges import CredentialSources, exchange_factory
from tidelog.broker.security.authentication.gate import GatePorts, SaslGate
from tidelog.broker.security.authentication.scram_credentials import ScramCredentials
from tidelog.broker.security.authentication.token_credentials import TokenCredentials
from tidelog.protocol.codec import decode
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.registry import APIS, ApiKey
from tidelog.protocol.schema import ApiMessage
from tidelog.security.delegation_token import token_hmac, token_password
from tidelog.security.oauthbearer.messages import FAILURE_ACKNOWLEDGEMENT, encode_client_first
from tidelog.security.oauthbearer.server import TokenValidation
from tidelog.security.oauthbearer.token import BearerToken, TokenError
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
SECRET_KEY = "secret of all nodes"
TOKEN = DelegationTokenRecord(
    token_id="token-1",
    owner="User:alice",
    requester="User:alice",
    issue_timestamp=NOW_MS,
    max_timestamp=NOW_MS + 60_000,
    expiration_timestamp=NOW_MS + 10_000,
)


@dataclass
class Gated:
    """A server with a gate; `served` are the API key and the principal of admitted requests.

    `with_token`: for each admitted request, whether the client has authenticated with a token.
    """

    client: Client
    server: NetworkServer
    reconfigure: Callable[[SaslListenerConfig], None]
    authentications: AuthenticationCounters
    clock: ManualClock
    served: list[tuple[int, str]]
    with_token: list[bool]

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
        frame = memoryview(await self.client.receive())
        _, position = read_response_header(frame, kind.api_key, version)
        return decode(kind, frame[position:], version)

    async def guess(self, passwords: CountedPasswords) -> bool:
        """Guess on a new connection, and reset it before the response; return False if it is refused."""
        client, earlier = await connect(self.server), passwords.guesses
        guessing = replace(self, client=client)
        try:
            await guessing.handshake()
            await guessing.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0guess"), 2)
            await eventually(lambda: passwords.guesses > earlier)
        except (asyncio.IncompleteReadError, ConnectionError):
            return False
        finally:
            client.reset()
            await eventually(lambda: not list(self.server.connections()))
        return True

    async def is_served(self) -> bool:
        """Return whether a request gets through; False if the connection is closed."""
        await self.send(MetadataRequest(), 9)
        try:
            return await self.client.receive() == b"served"
        except asyncio.IncompleteReadError:
            return False


class CountedPasswords(dict[str, str]):
    """Passwords by user; `guesses` is how many were compared."""

    guesses = 0

    def get(self, user: str, default: str | None = None) -> str | None:  # type: ignore[override]
        self.guesses += 1
        return super().get(user, default)


async def connect(server: NetworkServer) -> Client:
    return Client(*await asyncio.open_connection("127.0.0.1", server.port("SASL")))


@asynccontextmanager
async def serve_with_gate(
    config: SaslListenerConfig = CONFIG,
    *,
    connections_per_address: int = UNLIMITED,
    validate_token: TokenValidation | None = None,
) -> AsyncIterator[Gated]:
    """Start a listener with a gate, and connect a client to it."""
    clock, served, with_token = ManualClock(), list[tuple[int, str]](), list[bool]()

    def on_request(request: Request) -> None:
        with_token.append(request.client.is_token_authenticated)
        served.append((struct.unpack_from(">h", request.frame)[0], request.principal))
        request.respond(frame(b"served"))

    image = image_after_records([TOKEN], image_with_brokers(1))
    sources = CredentialSources(
        passwords=ScramCredentials(lambda: image, random.Random(1)),
        tokens=TokenCredentials(lambda: image, SECRET_KEY, random.Random(3), clock),
        clock=clock,
    )
    ports = GatePorts(
        clock=clock,
        call_later=asyncio.get_running_loop().call_later,
        on_request=on_request,
        request_bytes_max=1_000_000,
        authentications=AuthenticationCounters(),
    )
    gate = SaslGate(config, exchange_factory(config, sources, random.Random(2), validate_token), ports)

    def reconfigure(changed: SaslListenerConfig) -> None:
        gate.reconfigure(changed, exchange_factory(changed, sources, random.Random(3)))

    server = NetworkServer(network_config(max_connections_per_ip=connections_per_address), clock=clock)
    limit = config.max_receive_bytes
    server.bind(listener_config("SASL", host="127.0.0.1", unauthenticated_frame_bytes_max=limit), gate.handle)
    await server.start()
    client = await connect(server)
    try:
        yield Gated(client, server, reconfigure, ports.authentications, clock, served, with_token)
    finally:
        client.writer.close()
        await server.close(0)


async def test_plain() -> None:
    async with serve_with_gate() as gate:
        response = await gate.handshake()
        assert (response.error_code, response.mechanisms) == (0, ("PLAIN", "SCRAM-SHA-256"))
        answer = await gate.authenticate(ALICE)
        assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
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
        answer = await gate.authenticate(ALICE, version)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 5000 if version else 0)


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
        answer = await gate.receive(SaslAuthenticateResponse, 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
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
    answers = set()
    for message in (b"\0alice\0wrong", b"\0eve\0geheim"):
        async with serve_with_gate() as gate:
            await gate.handshake()
            answers.add(await gate.authenticate(message))
            assert await gate.client.is_closed()
    (answer,) = answers
    assert answer.error_message == "Authentication failed: Invalid username or password"


async def test_an_unknown_user_of_scram_fails_with_its_proof() -> None:
    async with serve_with_gate() as gate:
        client = ScramClient(ScramMechanism.SCRAM_SHA_256, "eve", "x", "abc")
        await gate.handshake("SCRAM-SHA-256")
        first = await gate.authenticate(client.first())
        assert first.error_code == 0
        answer = await gate.authenticate(client.respond(first.auth_bytes))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message == (
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
        answer = await gate.authenticate(b"\0alice\0canary-password")
        assert await gate.client.is_closed()
    assert "Invalid username or password" in caplog.text
    assert "canary" not in caplog.text + repr(answer) + repr(CONFIG)
    assert "geheim" not in caplog.text + repr(CONFIG)


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
        answer = await gate.authenticate(encode_plain("bob", "secret"))
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert answer.error_message is not None and "Cannot change principals" in answer.error_message
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


async def log_in_by_token(gate: Gated, token_id: str = "token-1") -> SaslAuthenticateResponse:
    """Authenticate with the password of token-1."""
    password = token_password(token_hmac(SECRET_KEY, "token-1"))
    client = ScramClient(ScramMechanism.SCRAM_SHA_256, token_id, password, "abc", is_token=True)
    await gate.handshake("SCRAM-SHA-256")
    first = await gate.authenticate(client.first())
    assert first.error_code == 0
    return await gate.authenticate(client.respond(first.auth_bytes))


async def test_a_client_with_a_token_is_its_owner_until_the_token_expires() -> None:
    async with serve_with_gate() as gate:
        answer = await log_in_by_token(gate)
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 10_000)
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
    answers = set()
    for token_id, expires in (("token-1", True), ("token-2", False)):
        async with serve_with_gate() as gate:
            if expires:
                gate.clock.advance_ns(10_001 * 1_000_000)
            answers.add(await log_in_by_token(gate, token_id))
            assert await gate.client.is_closed()
    (answer,) = answers
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials "
        "with SASL mechanism SCRAM-SHA-256"
    )
