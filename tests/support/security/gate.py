"""A server whose connections must authenticate with SASL, and a client of it."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from tests.support.clocks.manual_clock import NOW_MS, ManualClock
from tests.support.configs import listener_config, network_config
from tests.support.metadata.images import image_after_records, image_with_brokers
from tests.support.network.loopback_server import Client, frame
from tests.support.waiting import eventually
from tidelog.broker.config.sasl_config import SaslListenerConfig
from tidelog.broker.network.authentication_counters import AuthenticationCounters
from tidelog.broker.network.config import UNLIMITED
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.security.authentication.exchanges import CredentialSources, exchange_factory
from tidelog.broker.security.authentication.gate import GatePorts, SaslGate
from tidelog.broker.security.authentication.scram_credentials import ScramCredentials
from tidelog.broker.security.authentication.token_credentials import TokenCredentials
from tidelog.protocol.codec import decode
from tidelog.protocol.framing import encode_request, read_response_header
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.schema import ApiMessage
from tidelog.security.oauthbearer.server import TokenValidation
from tidelog.security.plain import encode_plain

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
class GateFixture:
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
) -> AsyncIterator[GateFixture]:
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
        yield GateFixture(client, server, reconfigure, ports.authentications, clock, served, with_token)
    finally:
        client.writer.close()
        await server.close(0)
