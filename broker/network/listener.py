"""One address the broker listens on, and the connections that came in by it."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.network.config import ListenerConfig, NetworkConfig
from broker.network.connection import Connection
from broker.network.request import Request

if TYPE_CHECKING:
    from broker.network.server import NetworkServer

logger = logging.getLogger(__name__)


class Listener:
    """An acceptor: bound when made, accepting after `start`. `on_request` gets every frame."""

    def __init__(
        self, server: NetworkServer, config: ListenerConfig, on_request: Callable[[Request], None]
    ) -> None:
        self.server = server
        self.name = config.name
        self.connections: set[Connection] = set()
        self._config = config
        self._on_request = on_request
        self._socket = _bind(config, server.config)
        self.port: int = self._socket.getsockname()[1]
        self._acceptor: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        """Begin to accept; until then whoever connects is refused."""
        self._acceptor = await self.server.loop.create_server(
            lambda: Connection(self, self._on_request),
            sock=self._socket,
            backlog=self.server.config.socket_listen_backlog_size,
            ssl=self._config.ssl_context,
        )
        logger.info("listener %s accepts connections on %s:%d", self.name, self._config.host, self.port)

    def stop(self) -> None:
        """Accept no more; connections stay."""
        if self._acceptor is not None:
            self._acceptor.close()
        self._socket.close()

    def admit(self, connection: Connection) -> bool:
        """Count a new connection in, or refuse it."""
        server = self.server
        reason = server.quota.admit(self.name, self._config.max_connections, connection.address)
        if reason is not None:
            server.counters.connections_refused += 1
            logger.warning(
                "refusing connection from %s: %s", connection.peer, reason, extra={"peer": connection.peer}
            )
            return False
        server.counters.connections_accepted += 1
        connection.idle_since_ms = server.clock.monotonic_ms()
        self.connections.add(connection)
        return True

    def forget(self, connection: Connection) -> None:
        """An admitted connection is gone."""
        self.connections.discard(connection)
        self.server.quota.release(self.name, connection.address)
        self.server.counters.connections_closed += 1
        self.server.counters.bytes_out_before += connection.sent_bytes
        self.server.connection_gone()

    def set_socket_options(self, transport: asyncio.Transport) -> None:
        """What Kafka sets on accepted sockets."""
        accepted = transport.get_extra_info("socket")
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self.server.config.socket_send_buffer_bytes > 0:
            accepted.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, self.server.config.socket_send_buffer_bytes
            )


def _bind(config: ListenerConfig, network: NetworkConfig) -> socket.socket:
    """A bound socket; an empty host means all of IPv6 and IPv4 as far as the machine has them."""
    both = not config.host and socket.has_dualstack_ipv6()
    host = config.host or ("::" if both else "0.0.0.0")
    found = socket.getaddrinfo(host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, number, _, address = found[0]
    bound = socket.socket(family, kind, number)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        if network.socket_receive_buffer_bytes > 0:
            # Before listen, since accepted sockets take the TCP window from here.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, network.socket_receive_buffer_bytes)
        bound.bind(address)
    except OSError as error:
        bound.close()
        message = f"listener {config.name} cannot bind to {host}:{config.port}: {error.strerror}"
        raise OSError(error.errno, message) from error
    bound.setblocking(False)
    return bound
