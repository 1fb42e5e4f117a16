"""Opening a connection to one broker: connect, negotiate versions, authenticate, all within one timeout.

Nodes use this directly for their connections to other nodes. Clients use `tidelog.clients.transport.network`,
which has a connection for each broker.
"""

from __future__ import annotations

import asyncio

from tidelog.base.dataclass import dataclass
from tidelog.clients.config.client_config import ContextSource
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connection import Authenticator, BrokerConnection


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """The settings of new connections; buffer sizes of -1 mean the operating system's default.

    `ssl` returns the TLS context for the next connection; None without TLS. `local_host`: the local address;
    None if the operating system chooses it. `authenticator`: None if the peer requires no authentication by
    SASL.
    """

    client_id: str
    max_response_bytes: int
    request_timeout_ms: int
    setup_timeout_ms: int
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    ssl: ContextSource | None = None
    local_host: str | None = None
    authenticator: Authenticator | None = None


async def open_connection(
    environment: Environment,
    settings: ConnectionSettings,
    address: BrokerAddress,
) -> BrokerConnection:
    """Open a connection and return it when requests can be sent.

    Errors: OSError and TimeoutError if `address` cannot be reached; KafkaError if version negotiation or
    authentication fails.
    """
    connection = BrokerConnection(
        node_id=address.node_id,
        client_id=settings.client_id,
        max_response_bytes=settings.max_response_bytes,
        request_timeout_ms=settings.request_timeout_ms,
        monotonic_ms=environment.monotonic_ms,
        receive_buffer_bytes=settings.receive_buffer_bytes,
        send_buffer_bytes=settings.send_buffer_bytes,
    )
    context = None if settings.ssl is None else settings.ssl()
    async with asyncio.timeout(settings.setup_timeout_ms / 1000):
        await environment.connect(
            lambda: connection, address.host, address.port, context, settings.local_host
        )
        try:
            await connection.negotiate()
            if settings.authenticator is not None:
                await connection.authenticate(settings.authenticator)
        except BaseException:
            connection.close()
            raise
    return connection
