"""The connections of one client to the brokers of one cluster (shell).

A connection is opened when it is first needed, and closed when it was idle for `connections_max_idle_ms`.
Attempts to connect to one broker use an exponential backoff. Each (broker, purpose) has its own connection: a
group's heartbeats must not wait behind a fetch that the broker delays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from socket import gaierror
from typing import TypeVar

from tidelog.base.backoff import ExponentialBackoff
from tidelog.clients.config.client_config import ClientConfig
from tidelog.clients.config.environment import Environment
from tidelog.clients.config.tls import context_source
from tidelog.clients.transport.api_versions import FinalizedFeatures
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.clients.transport.connection import Authenticator, BrokerConnection
from tidelog.clients.transport.connection_attempts import ConnectionAttempts
from tidelog.clients.transport.failures import TlsAuthenticationError, is_tls_failure
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.ids import BrokerId
from tidelog.protocol.schema import ApiMessage

DATA = "data"
"""The purpose of connections for all requests except group membership."""
COORDINATION = "coordination"
"""The purpose of connections for group membership."""

_AUTHENTICATION_ERRORS = frozenset(
    (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
)
"""Errors that another broker would return, too."""

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
_Key = tuple[BrokerId, str]


class Network:
    """The connections of a client: at most one for each broker and purpose.

    `features`: the newest finalized features that a broker has returned.
    `authenticator`: None without SASL.
    Bootstrap servers have the ids -1, -2, ... until metadata has the real ids.
    """

    def __init__(
        self, config: ClientConfig, environment: Environment, authenticator: Authenticator | None
    ) -> None:
        self._config = config
        self._environment = environment
        self._authenticator = authenticator
        self._tls = context_source(config)
        backoff = ExponentialBackoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        self._attempts = ConnectionAttempts(backoff, environment)
        self._bootstrap = {
            -1 - number: BrokerAddress(-1 - number, host, port)
            for number, (host, port) in enumerate(config.bootstrap_addresses)
        }
        self._brokers: dict[BrokerId, BrokerAddress] = {}
        self._connections: dict[_Key, BrokerConnection] = {}
        self._connecting: dict[_Key, asyncio.Task[BrokerConnection]] = {}
        self._closed = False
        self.features = FinalizedFeatures()

    def set_brokers(self, brokers: Iterable[BrokerAddress]) -> None:
        """Set the brokers from metadata; close idle connections to other nodes."""
        self._brokers = {broker.node_id: broker for broker in brokers}
        for key, connection in list(self._connections.items()):
            # Bootstrap connections (negative ids) are not needed once the real ids are known.
            is_known = key[0] in self._brokers or not self._brokers
            if not is_known and not len(connection.in_flight):
                self._drop(key)
        self._attempts.retain(self._brokers)

    def add_broker(self, broker: BrokerAddress) -> None:
        """Add a broker's address from a response other than metadata (a coordinator)."""
        self._brokers[broker.node_id] = broker

    @property
    def broker_ids(self) -> tuple[BrokerId, ...]:
        """The ids of the brokers in the metadata."""
        return tuple(self._brokers)

    def ready_connection(self, node_id: BrokerId, purpose: str = DATA) -> BrokerConnection | None:
        """Return the open connection to a broker; None if there is none."""
        connection = self._connections.get((node_id, purpose))
        return connection if connection is not None and connection.is_open else None

    def retry_in_ms(self, node_id: BrokerId) -> int:
        """Return the time until the next attempt to connect to `node_id` is allowed."""
        return self._attempts.retry_in_ms(node_id)

    def last_error(self, node_id: BrokerId) -> str | None:
        """Return why the last attempt to connect to `node_id` failed; None if it did not."""
        return self._attempts.last_error(node_id)

    def is_connecting(self, node_id: BrokerId, purpose: str = DATA) -> bool:
        """Return whether an attempt to connect to `node_id` is in progress."""
        return (node_id, purpose) in self._connecting

    async def connection(self, node_id: BrokerId, purpose: str = DATA) -> BrokerConnection:
        """Return an open connection to a broker; open one if needed, after the backoff of earlier failures.

        Raise KafkaError(NETWORK_EXCEPTION) if the broker cannot be reached, or if the metadata has no address
        for it; newer metadata may have one.
        """
        ready = self.ready_connection(node_id, purpose)
        if ready is not None:
            return ready
        if self._closed:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the client is closed")
        key = (node_id, purpose)
        task = self._connecting.get(key)
        if task is None:
            task = asyncio.create_task(self._connect(key))
            self._connecting[key] = task
            task.add_done_callback(lambda done: self._connect_done(key, done))
        return await asyncio.shield(task)

    async def any_connection(self) -> BrokerConnection:
        """Return a connection to the least busy broker; try all brokers, then the bootstrap servers."""
        ready = [connection for (_, purpose), connection in self._connections.items() if purpose == DATA]
        ready = [connection for connection in ready if connection.is_open]
        if ready:
            return min(ready, key=lambda connection: len(connection.in_flight))
        candidates = list(self._brokers)
        self._environment.rng.shuffle(candidates)
        bootstrap = list(self._bootstrap)
        self._environment.rng.shuffle(bootstrap)
        failures: list[str] = []
        for node_id in candidates + bootstrap:
            try:
                return await self.connection(node_id)
            except (KafkaError, OSError) as error:
                if _is_authentication_error(error):
                    raise
                failures.append(str(error))
        raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "no broker can be reached: " + "; ".join(failures))

    async def request(
        self,
        node_id: BrokerId | None,
        message: ApiMessage,
        response: type[ResponseT],
        *,
        purpose: str = DATA,
        timeout_ms: int | None = None,
        highest_version: int | None = None,
    ) -> ResponseT:
        """Send a request to one broker (None: any); return the response."""
        if node_id is None:
            connection = await self.any_connection()
        else:
            connection = await self.connection(node_id, purpose)
        return await connection.request(
            message, response, timeout_ms=timeout_ms, highest_version=highest_version
        )

    def disconnect(self, node_id: BrokerId, purpose: str) -> None:
        """Close one connection, so that the next request does not wait behind its pending responses."""
        if (node_id, purpose) in self._connections:
            self._drop((node_id, purpose))

    def close_idle(self) -> None:
        """Close the connections that were idle for `connections_max_idle_ms`."""
        oldest = self._environment.monotonic_ms() - self._config.connections_max_idle_ms
        for key, connection in list(self._connections.items()):
            if not connection.is_open or (connection.last_used_ms < oldest and not len(connection.in_flight)):
                self._drop(key)

    async def close(self) -> None:
        """Close all connections and stop all attempts to connect."""
        self._closed = True
        self._attempts.close()
        tasks = list(self._connecting.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for key in list(self._connections):
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        self._connections.pop(key).close()

    def _connect_done(self, key: _Key, task: asyncio.Task[BrokerConnection]) -> None:
        self._connecting.pop(key, None)
        if not task.cancelled():
            task.exception()  # The waiting calls raise it; otherwise asyncio would log it.

    async def _connect(self, key: _Key) -> BrokerConnection:
        node_id, _ = key
        delay_ms = self._attempts.retry_in_ms(node_id)
        if delay_ms > 0:
            await asyncio.sleep(delay_ms / 1000)
        address = self._brokers.get(node_id) or self._bootstrap.get(node_id)
        if address is None:
            # The caller retries with newer metadata, as after a lost connection.
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the metadata has no address of broker {node_id}")
        self._attempts.begin(address)
        try:
            connection = await self._open(address)
        except (OSError, TimeoutError, KafkaError) as error:
            raised = _connection_error(error, address)
            self._attempts.fail(node_id, str(raised))
            if raised is error:
                raise
            raise raised from error
        self._attempts.succeed(node_id)
        if connection.api_versions.features.epoch > self.features.epoch:
            self.features = connection.api_versions.features
        self._connections[key] = connection
        return connection

    async def _open(self, address: BrokerAddress) -> BrokerConnection:
        config = self._config
        settings = ConnectionSettings(
            client_id=config.client_id,
            max_response_bytes=config.max_response_bytes,
            request_timeout_ms=config.request_timeout_ms,
            setup_timeout_ms=config.socket_connection_setup_timeout_ms,
            receive_buffer_bytes=config.receive_buffer_bytes,
            send_buffer_bytes=config.send_buffer_bytes,
            ssl=self._tls,
            authenticator=self._authenticator,
        )
        return await open_connection(self._environment, settings, address)


def _is_authentication_error(error: BaseException) -> bool:
    if isinstance(error, TlsAuthenticationError):
        return True
    return isinstance(error, KafkaError) and error.code in _AUTHENTICATION_ERRORS


def _connection_error(error: OSError | KafkaError, address: BrokerAddress) -> KafkaError:
    """Return the error of an attempt to connect; it names the broker and its address."""
    if isinstance(error, KafkaError) and not error.code.retriable:
        return error
    reason = str(error) or type(error).__name__
    if isinstance(error, gaierror):
        reason = f"the host name cannot be resolved ({error.strerror or error})"
    name = f"broker {address.node_id} at " if address.node_id >= 0 else "bootstrap server "
    name += f"{address.host}:{address.port}"
    if is_tls_failure(error):
        return TlsAuthenticationError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the TLS handshake with {name} failed: {reason}"
        )
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{name} cannot be reached: {reason}")
