"""Connections to the other nodes of the quorum; one response, or None, is reported for every request.

A peer has two connections: one for fetches, which wait at the leader, and one for all other requests, so that
a vote never waits for a fetch. A connection is opened when it is needed, by a task of its own, including the
name resolution. A peer that cannot be reached delays no other peer.

Bounds: `MAX_WAITING` requests wait for a connection to open, further requests fail at once. A request, and
the opening of a connection, take at most the request timeout. Errors: none are raised to the caller; the
response to a request that fails is None.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tidelog.base.count_text import count_text
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.cluster.quorum.effects import Send
from tidelog.cluster.quorum.voter_set import preferred_endpoint
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.registry import APIS, ApiKey
from tidelog.protocol.schema import ApiMessage

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 100
_FETCHES: Final = frozenset((ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT))

ResponseListener = Callable[[int, ApiMessage | None], None]


class Peers:
    """Sends requests to the other nodes, and reports the response to each request."""

    def __init__(
        self,
        environment: Environment,
        settings: ConnectionSettings,
        on_response: ResponseListener,
        *,
        listener_names: Sequence[str] = (),
    ) -> None:
        """Create it without connections.

        `on_response` gets the id of each request with its response, None if there is none. `listener_names`
        are the listeners for controllers in the order of preference.
        """
        self._environment = environment
        # A connection must not take longer to open than the timeout of the requests that wait for it.
        shorter_ms = min(settings.setup_timeout_ms, settings.request_timeout_ms)
        self._settings = replace(settings, setup_timeout_ms=shorter_ms)
        self._on_response = on_response
        self._listener_names = tuple(listener_names)
        self._peers: dict[tuple[BrokerId, bool], _PeerConnection] = {}
        self._reachability: dict[BrokerId, _Reachability] = {}
        self._is_closed = False
        self._in_flight = 0
        self._response_event = asyncio.Event()

    def send(self, request: Send) -> None:
        """Send a request when there is a connection; neither wait nor raise."""
        self._in_flight += 1
        endpoint = preferred_endpoint(request.endpoints, self._listener_names)
        if endpoint is None or self._is_closed:
            self._complete(request.request_id, None)
            return
        key = (request.to_node, request.message.api_key in _FETCHES)
        peer = self._peers.get(key)
        if peer is None:
            reachability = self._reachability.setdefault(request.to_node, _Reachability())
            peer = self._peers[key] = _PeerConnection(
                self._environment, self._settings, self._complete, reachability
            )
        peer.send(request, BrokerAddress(request.to_node, endpoint.host, endpoint.port))

    async def wait_for_responses(self, timeout_s: float) -> None:
        """Wait until every request has its response, at most `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._in_flight:
                    self._response_event.clear()
                    await self._response_event.wait()
        except TimeoutError:
            logger.info("%d requests to other controllers have no response yet", self._in_flight)

    async def close(self) -> None:
        """Close all connections; the response of requests in flight is None."""
        self._is_closed = True
        peers = list(self._peers.values())
        self._peers.clear()
        await asyncio.gather(*(peer.close() for peer in peers))

    def _complete(self, request_id: int, message: ApiMessage | None) -> None:
        self._in_flight -= 1
        self._response_event.set()
        self._on_response(request_id, message)


class _Reachability:
    """Logs the begin and the end of each outage of one peer, for both of its connections.

    Requests are repeated many times a second: only the first failure is new to an operator. Requests that
    cannot be sent over an open connection, as to a node of a version without the API, are counted by API.
    """

    def __init__(self) -> None:
        self._failures = 0
        self._unsent: dict[int, int] = {}

    def on_failure(self, address: BrokerAddress, reason: str) -> None:
        """Count an attempt that failed; log the first one."""
        level = logging.DEBUG if self._failures else logging.INFO
        self._failures += 1
        text = "Cannot connect to node %d at %s:%d: %s"
        logger.log(level, text, address.node_id, address.host, address.port, reason)

    def on_connected(self, address: BrokerAddress) -> None:
        """Log the number of failures before this success, if there were any."""
        if self._failures:
            text = "Connected to node %d at %s:%d again after %s"
            attempts = count_text(self._failures, "failed attempt")
            logger.info(text, address.node_id, address.host, address.port, attempts)
        self._failures = 0

    def on_unsent(self, api_key: int, peer: str, error: Exception) -> None:
        """Count a request that could not be sent; log the first one of its API."""
        failures = self._unsent[api_key] = self._unsent.get(api_key, 0) + 1
        level = logging.DEBUG if failures > 1 else logging.INFO
        logger.log(level, "Cannot send %s to %s: %s", APIS[api_key].name, peer, error)

    def on_sent(self, api_key: int, peer: str) -> None:
        """Log the number of requests of this API that could not be sent before, if there were any."""
        if self._unsent and (failures := self._unsent.pop(api_key, 0)):
            attempts = count_text(failures, "failed attempt")
            logger.info("%s is sent to %s again after %s", APIS[api_key].name, peer, attempts)


class _PeerConnection:
    """One connection to one peer, and the requests that wait until it is open."""

    def __init__(
        self,
        environment: Environment,
        settings: ConnectionSettings,
        on_response: ResponseListener,
        reachability: _Reachability,
    ) -> None:
        self._environment = environment
        self._settings = settings
        self._on_response = on_response
        self._address: BrokerAddress | None = None
        self._connection: BrokerConnection | None = None
        self._opening_task: asyncio.Task[None] | None = None
        self._waiting_requests: list[Send] = []
        self._reachability = reachability

    def send(self, request: Send, address: BrokerAddress) -> None:
        """Send to the peer at `address`; close a connection to its former address."""
        if address != self._address:
            self._disconnect()
            self._address = address
        if self._connection is not None and self._connection.is_open:
            self._send_now(self._connection, request)
        elif len(self._waiting_requests) >= MAX_WAITING:
            self._on_response(request.request_id, None)
        else:
            self._waiting_requests.append(request)
            if self._opening_task is None:
                self._opening_task = asyncio.create_task(
                    self._open(address), name=f"raft-peer-{address.node_id}"
                )

    async def close(self) -> None:
        """Close the connection, and cancel its opening."""
        opening = self._opening_task
        self._disconnect()
        if opening is not None:
            await asyncio.gather(opening, return_exceptions=True)

    def _disconnect(self) -> None:
        if self._opening_task is not None:
            self._opening_task.cancel()
            self._opening_task = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._fail_waiting()

    async def _open(self, address: BrokerAddress) -> None:
        try:
            self._connection = await open_connection(self._environment, self._settings, address)
        except (OSError, TimeoutError, KafkaError) as error:
            reason = str(error) or f"no response within {self._settings.setup_timeout_ms} ms"
            self._reachability.on_failure(address, reason)
            self._opening_task = None
            self._fail_waiting()
            return
        except Exception:
            logger.exception("Cannot connect to node %d", address.node_id)
            self._opening_task = None
            self._fail_waiting()
            return
        self._opening_task = None
        self._reachability.on_connected(address)
        waiting, self._waiting_requests = self._waiting_requests, []
        for request in waiting:
            self._send_now(self._connection, request)

    def _fail_waiting(self) -> None:
        waiting, self._waiting_requests = self._waiting_requests, []
        for request in waiting:
            self._on_response(request.request_id, None)

    def _send_now(self, connection: BrokerConnection, request: Send) -> None:
        message = request.message
        try:
            future = connection.send(message, connection.version_of(message.api_key))
        except (KafkaError, ValueError) as error:
            self._reachability.on_unsent(message.api_key, connection.peer, error)
            self._on_response(request.request_id, None)
            return
        self._reachability.on_sent(message.api_key, connection.peer)

        def on_done(response: asyncio.Future[ApiMessage]) -> None:
            has_failed = response.cancelled() or response.exception() is not None
            self._on_response(request.request_id, None if has_failed else response.result())

        future.add_done_callback(on_done)
