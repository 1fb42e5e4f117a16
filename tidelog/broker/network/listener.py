"""One listener of the broker and its connections.

When max.connections is reached, Kafka does not accept further connections. Tidelog accepts them and lets them
wait: the first request of each is handled when the connection gets a slot. At most socket.listen.backlog.size
connections wait; further ones are refused.

A task creates the transport of each accepted socket; with TLS, after `TlsHandshakes` has completed the
handshake.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Protocol

from tidelog.broker.network.acceptor import Acceptor
from tidelog.broker.network.addresses import without_mapping
from tidelog.broker.network.config import ListenerConfig, NetworkConfig
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.connection_quota import ConnectionQuota
from tidelog.broker.network.connection_rates import ConnectionRates
from tidelog.broker.network.request import Request
from tidelog.broker.network.resources import NetworkResources
from tidelog.broker.network.throttled_sockets import ThrottledSockets
from tidelog.broker.network.tls_handshake import ReadMemory
from tidelog.broker.network.tls_handshakes import TlsHandshakes
from tidelog.broker.network.tls_session import TlsSession
from tidelog.broker.network.tls_transport import TlsTransport

logger = logging.getLogger(__name__)


class ListenerOwner(Protocol):
    """The owner of all listeners of a broker; implemented by NetworkServer."""

    quota: ConnectionQuota
    connection_rates: ConnectionRates
    refusal_reason: Callable[[int, bool], str | None] | None

    def close_surplus_connections(self) -> None:
        """Close connections if there are more than max.connections."""
        ...

    def on_connection_closed(self, connection: Connection) -> None:
        """Note that a connection that had a slot has ended."""
        ...


class Listener:
    """A bound socket that accepts connections after `start`; `on_request` is called with every request.

    Invariant: a connection either has a slot and is in `connections`, or waits for a slot, or has ended.
    """

    def __init__(
        self,
        owner: ListenerOwner,
        resources: NetworkResources,
        config: ListenerConfig,
        on_request: Callable[[Request], None],
    ) -> None:
        self._owner = owner
        self._resources = resources
        self._quota = owner.quota
        self._loop = asyncio.get_running_loop()
        self.name = config.name
        self.tls = config.tls
        self.connections: dict[Connection, None] = {}
        """Those with a slot, in the order in which they got it."""
        self._config = config
        self._on_request = on_request
        self._waiting_connections: dict[Connection, Request | None] = {}
        """Connections without a slot in the order of arrival, each with its first request."""
        self._opening_tasks: set[asyncio.Task[object]] = set()
        """Tasks that create transports for sockets."""
        self._handshakes = (
            None if config.tls is None else TlsHandshakes(config.name, config.tls, resources, self._open_tls)
        )
        self._accept_queue_size = resources.sockets.accept_queue_size(
            resources.config.socket_listen_backlog_size
        )
        listening_socket = resources.sockets.bind(
            f"Listener {config.name}", config.host, config.port, resources.config.socket_receive_buffer_bytes
        )
        self.port: int = listening_socket.getsockname()[1]
        self._acceptor = Acceptor(config.name, listening_socket, self._loop, self._on_accepted)
        self._throttled_sockets = ThrottledSockets(self._loop, self._open)

    def start(self) -> None:
        """Accept connections; until then clients that connect are refused."""
        self._acceptor.start(self._accept_queue_size)
        logger.info("Listener %s accepts connections on %s:%d", self.name, self._config.host, self.port)

    def _on_accepted(self, client_socket: socket.socket) -> None:
        refusal, is_protected = self._owner.refusal_reason, self._quota.is_protected(self.name)
        if refusal is not None and (reason := refusal(client_socket.fileno(), is_protected)) is not None:
            self._resources.counters.connections_refused += 1
            self._log(logging.WARNING, "Listener %s refuses a connection: %s", self.name, reason)
            client_socket.close()
            return
        try:
            _set_options(client_socket, self._resources.config)
        except OSError as error:
            logger.debug("Listener %s: a connection failed when it was accepted: %s", self.name, error)
            client_socket.close()
            return
        if not self._owner.connection_rates.is_limited or not self._throttle(client_socket, is_protected):
            self._open(client_socket)

    def _throttle(self, client_socket: socket.socket, is_protected: bool) -> bool:
        """Delay or refuse a connection if too many are created (KIP-612); return whether this was done."""
        now_ms, address = self._resources.clock.monotonic_ms(), peer_address(client_socket)
        delay_ms, is_refused = self._owner.connection_rates.admit(
            self.name, address, now_ms, is_protected=is_protected
        )
        if is_refused:
            self._resources.counters.connections_refused += 1
            text = "Refusing connection from %s on listener %s: connection_creation_rate is exceeded"
            self._log(logging.INFO, text, address, self.name)
            self._throttled_sockets.close_later(client_socket, delay_ms)
        elif delay_ms:
            self._throttled_sockets.open_later(client_socket, delay_ms)
            self._acceptor.pause(delay_ms / 1000)
        return delay_ms > 0

    def _open(self, client_socket: socket.socket) -> None:
        if self._handshakes is not None:
            self._handshakes.start(client_socket)
        else:
            self._create_transport(client_socket, lambda: self._create_connection(client_socket))

    def _open_tls(self, client_socket: socket.socket, session: TlsSession, memory: ReadMemory) -> None:
        """Create the connection of a socket whose handshake is complete."""
        self._create_transport(
            client_socket,
            lambda: TlsTransport(session, client_socket, memory, self._create_connection(client_socket)),
        )

    def _create_transport(
        self, client_socket: socket.socket, create_protocol: Callable[[], asyncio.BaseProtocol]
    ) -> None:
        opening_task = self._loop.create_task(
            self._loop.connect_accepted_socket(create_protocol, client_socket)
        )
        self._opening_tasks.add(opening_task)
        opening_task.add_done_callback(self._on_opened)

    @property
    def socket_count(self) -> int:
        """The number of accepted sockets: with a slot, waiting for a slot, and being opened."""
        opening_count = len(self._opening_tasks) + (0 if self._handshakes is None else len(self._handshakes))
        waiting = len(self._waiting_connections) + len(self._throttled_sockets)
        return len(self.connections) + waiting + opening_count

    def _on_opened(self, opening_task: asyncio.Task[object]) -> None:
        self._opening_tasks.discard(opening_task)
        if not opening_task.cancelled() and (error := opening_task.exception()) is not None:
            self._log(logging.INFO, "Listener %s: a connection could not be opened: %s", self.name, error)

    def _create_connection(self, client_socket: socket.socket) -> Connection:
        def handle_or_queue(request: Request) -> None:
            self._handle_or_queue(connection, request)

        connection = Connection(
            self._resources,
            self.name,
            client_socket,
            frame_bytes_max=self._config.unauthenticated_frame_bytes_max,
            # Only if connections are limited, a request may belong to a connection without a slot.
            on_request=handle_or_queue if self._quota.is_limited else self._on_request,
            on_connected=self._admit,
            on_closed=self._on_closed,
        )
        return connection

    def stop(self) -> None:
        """Accept no further connection; open connections stay open."""
        self._acceptor.stop()
        self._throttled_sockets.close()
        for opening_task in self._opening_tasks:
            opening_task.cancel()
        if self._handshakes is not None:
            self._handshakes.stop()

    def _admit(self, connection: Connection) -> bool:
        """Assign a slot to a new connection, let it wait, or refuse it; return False if it is refused."""
        quota = self._quota
        reason = self._set_principal(connection) or quota.admit(connection.address)
        if reason is None:
            connection.core.restart_idle_time(self._resources.clock.monotonic_ms())
            if not self._waiting_connections and quota.take_slot(self.name):
                self._add(connection)
                return True
            if len(self._waiting_connections) < self._accept_queue_size:
                self._log(
                    logging.WARNING,
                    "Connection from %s waits for a slot: %d connections are open (max.connections)",
                    connection.peer,
                    quota.count,
                )
                self._waiting_connections[connection] = None
                return True
            quota.release(connection.address)
            reason = f"{len(self._waiting_connections)} connections already wait for a slot (max.connections)"
        self._resources.counters.connections_refused += 1
        self._log(logging.WARNING, "Refusing connection from %s: %s", connection.peer, reason)
        return False

    def _set_principal(self, connection: Connection) -> str | None:
        """Set the principal from the client's certificate; return None, or the reason why this failed."""
        tls = self.tls
        if tls is None:
            return None
        authentications = self._resources.counters.authentications[self.name]
        try:
            if (certificate := connection.peer_certificate) is not None:
                principal = tls.principal(certificate, self._resources.clock.wall_ms())
                connection.client.on_authenticated(principal)
        except ValueError as error:
            authentications.on_failure(is_reauthentication=False)
            return f"its certificate cannot be used: {error}"
        if self._config.unauthenticated_frame_bytes_max is None:
            # The handshake is all: without SASL, a client cannot authenticate again.
            authentications.on_success(can_reauthenticate=False)
        return None

    def _log(self, level: int, message: str, *arguments: object) -> None:
        self._resources.log_limit.log(logger, level, message, *arguments)

    def _add(self, connection: Connection) -> None:
        self._resources.counters.connections_accepted += 1
        self.connections[connection] = None
        self._owner.close_surplus_connections()

    def _handle_or_queue(self, connection: Connection, request: Request) -> None:
        """Handle a request, or keep it until its connection gets a slot."""
        if connection not in self._waiting_connections:
            self._on_request(request)
            return

        def drop_queued(_: Request) -> None:
            if connection in self._waiting_connections:
                self._waiting_connections[connection] = None

        self._waiting_connections[connection] = request
        request.begin_waiting(drop_queued)

    def admit_waiting(self) -> None:
        """Assign free slots to waiting connections."""
        while self._waiting_connections and self._quota.take_slot(self.name):
            connection, request = next(iter(self._waiting_connections.items()))
            del self._waiting_connections[connection]
            connection.core.restart_idle_time(self._resources.clock.monotonic_ms())
            self._add(connection)
            if request is not None:
                self._loop.call_soon(self._handle_queued, request)

    def _handle_queued(self, request: Request) -> None:
        if request.is_open:
            request.end_waiting()
            self._on_request(request)

    def close_waiting(self) -> None:
        """Close the connections that wait for a slot."""
        for connection in list(self._waiting_connections):
            connection.abort()

    def _on_closed(self, connection: Connection) -> None:
        """Release the slot of a connection that has ended."""
        self._release_address(connection)
        if connection in self._waiting_connections:
            del self._waiting_connections[connection]
            return
        self.connections.pop(connection, None)
        self._quota.free_slot(self.name)
        counters = self._resources.counters
        counters.connections_closed += 1
        counters.bytes_out_of_closed += connection.sent_bytes
        self._owner.on_connection_closed(connection)

    def _release_address(self, connection: Connection) -> None:
        """Stop counting a connection for its address; after a failed authentication only after a delay."""
        session, release_delay_ms = connection.client.session, 0
        if session is not None:
            release_delay_ms = session.counts_until_ms - self._resources.clock.monotonic_ms()
        if release_delay_ms > 0:
            self._loop.call_later(release_delay_ms / 1000, self._quota.release, connection.address)
        else:
            self._quota.release(connection.address)


def peer_address(client_socket: socket.socket) -> str:
    """Return the address of the peer; a mapped IPv4 address as IPv4. Return "?" if it has disconnected."""
    try:
        return without_mapping(str(client_socket.getpeername()[0]))
    except OSError:
        return "?"


def _set_options(client_socket: socket.socket, config: NetworkConfig) -> None:
    """Make the socket non-blocking, and set the options that Kafka sets on accepted sockets."""
    client_socket.setblocking(False)
    client_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if config.socket_send_buffer_bytes > 0:
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)
