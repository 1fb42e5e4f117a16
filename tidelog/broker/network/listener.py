"""One address the broker listens on, and the connections that came in by it.

Over max.connections Kafka's acceptor waits, and so do the connections. Here they are accepted and wait: the
first request of each is kept, and handled once there is room. As many may wait as the operating system would
hold for the acceptor (socket.listen.backlog.size), more are refused.

Each accepted socket becomes a transport in a task, since with TLS that takes a handshake.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.broker.network.acceptor import Acceptor, accept_queue_size
from tidelog.broker.network.config import ListenerConfig, NetworkConfig
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.request import Request

if TYPE_CHECKING:
    from tidelog.broker.network.server import NetworkServer

logger = logging.getLogger(__name__)


class Listener:
    """Bound when it is created, accepts connections after `start`. `on_request` gets every frame.

    Invariant: a connection is among `connections`, and has a slot, or it waits, or it has ended.
    """

    def __init__(
        self, server: NetworkServer, config: ListenerConfig, on_request: Callable[[Request], None]
    ) -> None:
        self.server = server
        self.name = config.name
        self.connections: set[Connection] = set()
        self._config = config
        self._on_request = on_request
        self._waiting: dict[Connection, Request | None] = {}
        """Connections without a slot, the first to come first, each with its first request."""
        self._opening: set[asyncio.Task[object]] = set()
        """Tasks that make transports of accepted sockets."""
        self._accept_queue_size = accept_queue_size(server.config.socket_listen_backlog_size)
        bound = _bind(config, server.config)
        self.port: int = bound.getsockname()[1]
        self._acceptor = Acceptor(config.name, bound, server.loop, self._accepted)

    def start(self) -> None:
        """Accept connections; until then clients that connect are refused."""
        self._acceptor.start(self._accept_queue_size)
        logger.info("listener %s accepts connections on %s:%d", self.name, self._config.host, self.port)

    def _accepted(self, accepted: socket.socket) -> None:
        refusal, is_protected = self.server.socket_refusal, self.server.quota.is_protected(self.name)
        if refusal is not None and (reason := refusal(accepted.fileno(), is_protected)) is not None:
            self.server.counters.connections_refused += 1
            self._log(logging.WARNING, "listener %s refuses a connection: %s", self.name, reason)
            accepted.close()
            return
        try:
            _set_options(accepted, self.server.config)
        except OSError as error:
            logger.debug("listener %s: a connection failed when it was accepted: %s", self.name, error)
            accepted.close()
            return
        opening = self.server.loop.create_task(
            self.server.loop.connect_accepted_socket(
                lambda: self._connection(accepted), accepted, ssl=self._config.ssl_context
            )
        )
        self._opening.add(opening)
        opening.add_done_callback(self._opened)

    @property
    def socket_count(self) -> int:
        """Accepted sockets: connections, those that wait for a slot, and those that are being opened."""
        return len(self.connections) + len(self._waiting) + len(self._opening)

    def _opened(self, opening: asyncio.Task[object]) -> None:
        self._opening.discard(opening)
        if not opening.cancelled() and (error := opening.exception()) is not None:
            self._log(logging.INFO, "listener %s: a connection could not be opened: %s", self.name, error)

    def _connection(self, accepted: socket.socket) -> Connection:
        # Only where connections may have to wait it is asked at each request whether this one does.
        on_request = self._kept_or_handled if self.server.quota.is_limited else self._on_request
        return Connection(self, accepted, on_request)

    def stop(self) -> None:
        """Accept no more; connections stay."""
        self._acceptor.stop()
        for opening in self._opening:
            opening.cancel()

    def admit(self, connection: Connection) -> bool:
        """Count a new connection in, let it wait for its turn, or refuse it."""
        server = self.server
        reason = server.quota.admit(connection.address)
        if reason is None:
            connection.idle_since_ms = server.clock.monotonic_ms()
            if not self._waiting and server.quota.take_slot(self.name):
                self._count_in(connection)
                return True
            if len(self._waiting) < self._accept_queue_size:
                self._log(
                    logging.WARNING,
                    "connection from %s waits: there are %d already (max.connections)",
                    connection.peer,
                    server.quota.count,
                )
                self._waiting[connection] = None
                return True
            server.quota.release(connection.address)
            reason = f"{len(self._waiting)} others wait already (max.connections)"
        server.counters.connections_refused += 1
        self._log(logging.WARNING, "refusing connection from %s: %s", connection.peer, reason)
        return False

    def _log(self, level: int, message: str, *arguments: object) -> None:
        self.server.log_limit.log(logger, level, message, *arguments)

    def _count_in(self, connection: Connection) -> None:
        self.server.counters.connections_accepted += 1
        self.connections.add(connection)
        self.server.make_room()

    def _kept_or_handled(self, request: Request) -> None:
        if request.connection in self._waiting:
            self._waiting[request.connection] = request
            request.on_abandoned = self._forget_kept
        else:
            self._on_request(request)

    def _forget_kept(self, request: Request) -> None:
        if request.connection in self._waiting:
            self._waiting[request.connection] = None

    def admit_waiting(self) -> None:
        """Give slots that have become free to those that wait."""
        while self._waiting and self.server.quota.take_slot(self.name):
            connection, request = next(iter(self._waiting.items()))
            del self._waiting[connection]
            connection.idle_since_ms = self.server.clock.monotonic_ms()
            self._count_in(connection)
            if request is not None:
                self.server.loop.call_soon(self._handle_kept, request)

    def _handle_kept(self, request: Request) -> None:
        if request.is_open:
            request.on_abandoned = None
            self._on_request(request)

    def turn_away(self) -> None:
        """Close the connections that wait."""
        for connection in list(self._waiting):
            connection.abort()

    def forget(self, connection: Connection) -> None:
        """An admitted connection is gone."""
        server = self.server
        server.quota.release(connection.address)
        if connection in self._waiting:
            del self._waiting[connection]
            return
        self.connections.discard(connection)
        server.quota.free_slot(self.name)
        server.counters.connections_closed += 1
        server.counters.bytes_out_before += connection.sent_bytes
        server.connection_gone(connection)


def _set_options(accepted: socket.socket, config: NetworkConfig) -> None:
    """Set the options that Kafka sets on accepted sockets; nothing waits for the socket."""
    accepted.setblocking(False)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if config.socket_send_buffer_bytes > 0:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)


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
