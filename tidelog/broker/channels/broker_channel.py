"""Typed requests to the brokers of this cluster: in process to this broker, else over the network.

A broker handles the requests of one connection one after the other, and some take long: a transaction marker
is acknowledged when it is replicated. Each request therefore has its own connection while it is in flight.
The idle connection that was used last is used first. The peer's idle timeout closes the others.
Callers that must not wait for each other have separate channels.

A connection to a broker that is fenced, has moved or has left the metadata is closed at once. Its requests
fail at once, and the caller can send them to the new leaders.

Failed requests are not retried here, because the caller must check whether the broker is still the right one.

Bounds: `CONNECTIONS_MAX` connections to one broker, other requests wait for one; no connection to brokers
that are not in the metadata.
Source: InterBrokerSendThread of Apache Kafka 4.3, which has the same purpose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
LocalHandler = Callable[[ApiMessage], Awaitable[ApiMessage]]

CONNECTIONS_MAX: Final = 8


def broker_address(image: MetadataImage, broker_id: BrokerId, listener: str) -> BrokerAddress:
    """Return the address of a broker's `listener`.

    Errors: KafkaError BROKER_NOT_AVAILABLE if the broker is not in the metadata or has no such listener.
    """
    broker = image.brokers.get(broker_id)
    endpoint = None if broker is None else broker.endpoints.get(listener)
    if endpoint is None:
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} has no listener {listener} in the metadata"
        )
    return BrokerAddress(broker_id, endpoint.host, endpoint.port)


class BrokerChannel:
    """Sends requests to brokers; must be closed with `close`."""

    def __init__(
        self,
        *,
        node_id: BrokerId,
        handle_locally: LocalHandler,
        find: Callable[[BrokerId], BrokerAddress],
        environment: Environment,
        settings: ConnectionSettings,
    ) -> None:
        """Create a channel of this broker, which has the id `node_id`.

        `handle_locally` handles requests to this broker. `find` returns the address of another broker; it
        raises KafkaError BROKER_NOT_AVAILABLE if the broker is unknown.
        """
        self._node_id = node_id
        self._handle_locally = handle_locally
        self._find = find
        self._environment = environment
        self._settings = settings
        self._pools: dict[BrokerId, _ConnectionPool] = {}
        self._is_closed = False

    async def request(self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        """Send the request once and return the response, within the settings' request timeout.

        Errors: KafkaError BROKER_NOT_AVAILABLE if the broker is unknown or cannot be reached; it has not
        received the request. NETWORK_EXCEPTION and REQUEST_TIMED_OUT: it may have received it.
        UNSUPPORTED_VERSION if it does not serve the API. The caller handles error codes in the response.
        """
        if self._is_closed:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the node is stopping")
        if broker_id == self._node_id:
            result = await self._handle_locally(message)
        else:
            result = await self._pool(broker_id).request(message)
        assert isinstance(result, response), f"{type(result).__name__} for {type(message).__name__}"
        return result

    def on_metadata_changed(self, image: MetadataImage) -> None:
        """Close the connections to brokers that were fenced or removed, or have another address now."""
        for broker_id, pool in list(self._pools.items()):
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced or self._has_moved(broker_id, pool):
                pool.close()
                del self._pools[broker_id]

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._is_closed = True
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()

    def _has_moved(self, broker_id: BrokerId, pool: _ConnectionPool) -> bool:
        try:
            return self._find(broker_id) != pool.address
        except KafkaError:
            return True

    def _pool(self, broker_id: BrokerId) -> _ConnectionPool:
        """Return the connections to the current address of a broker. Errors: those of `find`."""
        address = self._find(broker_id)
        pool = self._pools.get(broker_id)
        if pool is None or pool.address != address:
            if pool is not None:
                pool.close()
            pool = self._pools[broker_id] = _ConnectionPool(self._environment, self._settings, address)
        return pool


class _ConnectionPool:
    """Connections to one address, each with at most one request in flight."""

    def __init__(
        self, environment: Environment, settings: ConnectionSettings, address: BrokerAddress
    ) -> None:
        self.address = address
        self._environment = environment
        self._settings = settings
        self._slots = asyncio.Semaphore(CONNECTIONS_MAX)
        self._idle: list[BrokerConnection] = []
        self._attempts: set[asyncio.Task[ApiMessage]] = set()
        self._is_closed = False

    async def request(self, message: ApiMessage) -> ApiMessage:
        """Send the request once and return the response. Errors: those of `BrokerChannel.request`."""
        attempt = asyncio.get_running_loop().create_task(self._attempt(message))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                return await attempt
        except TimeoutError:
            text = f"{self.address} did not respond within {self._settings.request_timeout_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if not self._is_closed or (caller is not None and caller.cancelling()):
                raise
            text = f"broker {self.address.node_id} is fenced, or no longer has the address {self.address}"
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, text) from None

    def close(self) -> None:
        """Close every connection; requests that are in flight or waiting fail."""
        self._is_closed = True
        for attempt in self._attempts:
            attempt.cancel()
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    async def _attempt(self, message: ApiMessage) -> ApiMessage:
        async with self._slots:
            connection = self._take_idle() or await self._open()
            try:
                return await connection.send(message, connection.version_of(message.api_key))
            finally:
                self._release(connection)

    def _take_idle(self) -> BrokerConnection | None:
        """Remove and return the idle connection that was used last; None if none is open."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    def _release(self, connection: BrokerConnection) -> None:
        if connection.is_open and not connection.in_flight and not self._is_closed:
            self._idle.append(connection)
        else:
            connection.close()

    async def _open(self) -> BrokerConnection:
        try:
            return await open_connection(self._environment, self._settings, self.address)
        except (OSError, TimeoutError, KafkaError) as error:
            text = f"{self.address} cannot be reached: {error}"
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text) from error
