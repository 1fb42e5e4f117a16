"""Requests to the other nodes of the quorum: a connection each, and every request answered once.

A peer has two connections: one for fetches, which wait at the leader, and one for everything else,
so that a vote never stands behind a fetch. Each is opened when it is needed, by a task of its own,
name resolution included: a peer that cannot be reached holds up nobody else.

Bounds: `MAX_WAITING` requests wait for a connection to open, more fail at once. A request, and the
opening of a connection, take at most the request timeout.
Errors: none reach the caller; a request that fails is answered with None.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.cluster.quorum.effects import Send
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.errors import KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.registry import APIS, ApiKey
from tidelog.protocol.schema import ApiMessage

logger = logging.getLogger(__name__)

MAX_WAITING: Final = 100
_FETCHES: Final = frozenset((ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT))

AnswerListener = Callable[[int, ApiMessage | None], None]


class Peers:
    """The other nodes; `answered` hears of every request that was sent."""

    def __init__(
        self,
        environment: Environment,
        settings: ConnectionSettings,
        answered: AnswerListener,
        *,
        listener_names: Sequence[str] = (),
    ) -> None:
        """`listener_names`: the controllers' listeners, the best first."""
        self._environment = environment
        # A connection that takes longer than a request may is of no use to anybody.
        shorter_ms = min(settings.setup_timeout_ms, settings.request_timeout_ms)
        self._settings = replace(settings, setup_timeout_ms=shorter_ms)
        self._report = answered
        self._listener_names = tuple(listener_names)
        self._lanes: dict[tuple[BrokerId, bool], _Lane] = {}
        self._closed = False
        self._unanswered = 0
        self._settled = asyncio.Event()

    def send(self, request: Send) -> None:
        """Send as soon as there is a connection; never waits and never raises."""
        self._unanswered += 1
        endpoint = self._endpoint(request.endpoints)
        if endpoint is None or self._closed:
            self._answered(request.request_id, None)
            return
        key = (request.to_node, request.message.api_key in _FETCHES)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(self._environment, self._settings, self._answered)
        lane.send(request, BrokerAddress(request.to_node, endpoint.host, endpoint.port))

    async def settle(self, timeout_s: float) -> None:
        """Wait until every request is answered, or for so long."""
        try:
            async with asyncio.timeout(timeout_s):
                while self._unanswered:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            logger.info("%d requests to other controllers are not answered", self._unanswered)

    @property
    def open_connections(self) -> int:
        """How many are open now."""
        return sum(lane.is_open for lane in self._lanes.values())

    async def close(self) -> None:
        """Close all connections; what is in flight is answered with None."""
        self._closed = True
        lanes = list(self._lanes.values())
        self._lanes.clear()
        await asyncio.gather(*(lane.close() for lane in lanes))

    def _answered(self, request_id: int, message: ApiMessage | None) -> None:
        self._unanswered -= 1
        self._settled.set()
        self._report(request_id, message)

    def _endpoint(self, endpoints: Sequence[Endpoint]) -> Endpoint | None:
        for name in self._listener_names:
            for endpoint in endpoints:
                if endpoint.listener_name == name:
                    return endpoint
        return endpoints[0] if endpoints else None


class _Lane:
    """One connection to one peer, and what waits for it to open."""

    def __init__(
        self, environment: Environment, settings: ConnectionSettings, answered: AnswerListener
    ) -> None:
        self._environment = environment
        self._settings = settings
        self._answered = answered
        self._address: BrokerAddress | None = None
        self._connection: BrokerConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._waiting: list[Send] = []

    @property
    def is_open(self) -> bool:
        """Whether requests can go out at once."""
        return self._connection is not None and self._connection.is_open

    def send(self, request: Send, address: BrokerAddress) -> None:
        """Send to the peer at `address`; a connection to where it was before is given up."""
        if address != self._address:
            self._drop()
            self._address = address
        if self._connection is not None and self._connection.is_open:
            self._send_now(self._connection, request)
        elif len(self._waiting) >= MAX_WAITING:
            self._answered(request.request_id, None)
        else:
            self._waiting.append(request)
            if self._opening is None:
                self._opening = asyncio.create_task(self._open(address), name=f"raft-peer-{address.node_id}")

    async def close(self) -> None:
        """Close the connection, and give up opening one."""
        opening = self._opening
        self._drop()
        if opening is not None:
            await asyncio.gather(opening, return_exceptions=True)

    def _drop(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._fail_waiting()

    async def _open(self, address: BrokerAddress) -> None:
        try:
            self._connection = await open_connection(self._environment, self._settings, address)
        except (OSError, TimeoutError, KafkaError) as error:
            logger.debug("node %d at %s:%d: %s", address.node_id, address.host, address.port, error)
            self._opening = None
            self._fail_waiting()
            return
        except Exception:
            logger.exception("no connection to node %d", address.node_id)
            self._opening = None
            self._fail_waiting()
            return
        self._opening = None
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._send_now(self._connection, request)

    def _fail_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for request in waiting:
            self._answered(request.request_id, None)

    def _send_now(self, connection: BrokerConnection, request: Send) -> None:
        message = request.message
        try:
            future = connection.send(message, connection.version_of(message.api_key))
        except (KafkaError, ValueError) as error:
            logger.info("%s cannot be sent to %s: %s", APIS[message.api_key].name, connection.peer, error)
            self._answered(request.request_id, None)
            return

        def done(ended: asyncio.Future[ApiMessage]) -> None:
            failed = ended.cancelled() or ended.exception() is not None
            self._answered(request.request_id, None if failed else ended.result())

        future.add_done_callback(done)
