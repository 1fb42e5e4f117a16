"""One listener of the broker and its connections.

Over max.connections, Kafka does not accept further connections. Tidelog accepts them and lets them wait: the
first request of each is handled when the connection gets a slot. At most socket.listen.backlog.size
connections wait; further ones are refused.

A task creates the transport of each accepted socket, because TLS needs a handshake.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Protocol

from tidelog.broker.network.acceptor import Acceptor, accept_queue_size
from tidelog.broker.network.config import ListenerConfig, NetworkConfig
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.connection_quota import ConnectionQuota
from tidelog.broker.network.request import Request
from tidelog.broker.network.resources import NetworkResources

logger = logging.getLogger(__name__)


class ListenerOwner(Protocol):
    """The owner of all listeners of a broker; implemented by NetworkServer."""

    quota: ConnectionQuota
    socket_refusal: Callable[[int, bool], str | None] | None

    def make_room(self) -> None:
        """Close idle connections if there are more than max.connections."""
        ...

    def connection_gone(self, connection: Connection) -> None:
        """Note that a connection that had a slot has ended."""
        ...


class Listener:
    """Bound when it is created, accepts connections after `start`. `on_request` gets every frame.

    Invariant: a connection is among `connections`, and has a slot, or it waits, or it has ended.
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
        self.connections: set[Connection] = set()
        self._config = config
        self._on_request = on_request
        self._waiting: dict[Connection, Request | None] = {}
        """Connections without a slot in the order of arrival, each with its first request."""
        self._opening: set[asyncio.Task[object]] = set()
        """Tasks that create transports for accepted sockets."""
        self._accept_queue_size = accept_queue_size(resources.config.socket_listen_backlog_size)
        bound = _bind(config, resources.config)
        self.port: int = bound.getsockname()[1]
        self._acceptor = Acceptor(config.name, bound, self._loop, self._accepted)

    def start(self) -> None:
        """Accept connections; until then clients that connect are refused."""
        self._acceptor.start(self._accept_queue_size)
        logger.info("listener %s accepts connections on %s:%d", self.name, self._config.host, self.port)

    def _accepted(self, accepted: socket.socket) -> None:
        refusal, is_protected = self._owner.socket_refusal, self._quota.is_protected(self.name)
        if refusal is not None and (reason := refusal(accepted.fileno(), is_protected)) is not None:
            self._resources.counters.connections_refused += 1
            self._log(logging.WARNING, "listener %s refuses a connection: %s", self.name, reason)
            accepted.close()
            return
        try:
            _set_options(accepted, self._resources.config)
        except OSError as error:
            logger.debug("listener %s: a connection failed when it was accepted: %s", self.name, error)
            accepted.close()
            return
        opening = self._loop.create_task(
            self._loop.connect_accepted_socket(
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
        def keep_or_handle(request: Request) -> None:
            self._keep_or_handle(connection, request)

        connection = Connection(
            self._resources,
            self.name,
            accepted,
            # Only with a limit of connections a request may belong to one that still waits for a slot.
            on_request=keep_or_handle if self._quota.is_limited else self._on_request,
            on_connected=self._admit,
            on_closed=self._forget,
        )
        return connection

    def stop(self) -> None:
        """Accept no more; connections stay."""
        self._acceptor.stop()
        for opening in self._opening:
            opening.cancel()

    def _admit(self, connection: Connection) -> bool:
        """Give a new connection a slot, let it wait for one, or refuse it; return whether it may stay."""
        quota = self._quota
        reason = quota.admit(connection.address)
        if reason is None:
            connection.core.restart_idle_time(self._resources.clock.monotonic_ms())
            if not self._waiting and quota.take_slot(self.name):
                self._count_in(connection)
                return True
            if len(self._waiting) < self._accept_queue_size:
                self._log(
                    logging.WARNING,
                    "connection from %s waits: there are %d already (max.connections)",
                    connection.peer,
                    quota.count,
                )
                self._waiting[connection] = None
                return True
            quota.release(connection.address)
            reason = f"{len(self._waiting)} others wait already (max.connections)"
        self._resources.counters.connections_refused += 1
        self._log(logging.WARNING, "refusing connection from %s: %s", connection.peer, reason)
        return False

    def _log(self, level: int, message: str, *arguments: object) -> None:
        self._resources.log_limit.log(logger, level, message, *arguments)

    def _count_in(self, connection: Connection) -> None:
        self._resources.counters.connections_accepted += 1
        self.connections.add(connection)
        self._owner.make_room()

    def _keep_or_handle(self, connection: Connection, request: Request) -> None:
        if connection not in self._waiting:
            self._on_request(request)
            return

        def forget_kept(_: Request) -> None:
            if connection in self._waiting:
                self._waiting[connection] = None

        self._waiting[connection] = request
        request.on_abandoned = forget_kept

    def admit_waiting(self) -> None:
        """Give free slots to waiting connections."""
        while self._waiting and self._quota.take_slot(self.name):
            connection, request = next(iter(self._waiting.items()))
            del self._waiting[connection]
            connection.core.restart_idle_time(self._resources.clock.monotonic_ms())
            self._count_in(connection)
            if request is not None:
                self._loop.call_soon(self._handle_kept, request)

    def _handle_kept(self, request: Request) -> None:
        if request.is_open:
            request.on_abandoned = None
            self._on_request(request)

    def turn_away(self) -> None:
        """Close the connections that wait for a slot."""
        for connection in list(self._waiting):
            connection.abort()

    def _forget(self, connection: Connection) -> None:
        """Release the slot of a connection that has ended."""
        self._quota.release(connection.address)
        if connection in self._waiting:
            del self._waiting[connection]
            return
        self.connections.discard(connection)
        self._quota.free_slot(self.name)
        counters = self._resources.counters
        counters.connections_closed += 1
        counters.bytes_out_before += connection.sent_bytes
        self._owner.connection_gone(connection)


def _set_options(accepted: socket.socket, config: NetworkConfig) -> None:
    """Set the options that Kafka sets on accepted sockets; nothing waits for the socket."""
    accepted.setblocking(False)
    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if config.socket_send_buffer_bytes > 0:
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, config.socket_send_buffer_bytes)


def _bind(config: ListenerConfig, network: NetworkConfig) -> socket.socket:
    """Return a bound socket; an empty host means all IPv6 and IPv4 addresses of the machine."""
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
