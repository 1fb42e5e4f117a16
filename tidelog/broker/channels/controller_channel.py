"""Typed requests to the active controller: in process if it is this node, else over the network.

A request that fails with a retriable error (unknown controller, NOT_CONTROLLER, lost connection) is sent
again until its deadline. It may therefore be executed twice, as in Kafka. Requests that change metadata
contain the state that they are based on, or their response states that the change exists already.

When another node becomes the controller, the connection to the former one stays open for `grace_ms`. It is
then closed, and its requests in flight are sent to the new controller. An attempt to connect to the former
controller ends at once.

The controller handles the requests of one channel one after the other. Requests that must not wait for
others, such as heartbeats, have a channel of their own.

Bounds: `MAX_IN_FLIGHT` requests in flight; further requests wait.
Units: deadlines in milliseconds of the clock's `monotonic_ms`.
Source: NodeToControllerChannelManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import Clock
from tidelog.broker.scheduling.slices import Slices
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.api_versions import ApiVersions
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.registry import APIS
from tidelog.protocol.response_errors import contains_error
from tidelog.protocol.schema import ApiMessage

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

MAX_IN_FLIGHT: Final = 50
_BACKOFF: Final = ExponentialBackoff(20, 200)
FORMER_CONTROLLER_GRACE_MS: Final = 500
"""Long enough to receive the responses that a former controller has already sent."""

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class LocalController(Protocol):
    """The controller of this node; implemented in broker.controller, which imports this package."""

    @property
    def is_active(self) -> bool:
        """Whether it is the active controller."""
        ...

    async def handle(self, message: ApiMessage) -> ApiMessage:
        """Handle a request in process; raise KafkaError NOT_CONTROLLER if it is no longer active."""
        ...


class ControllerChannel:
    """Sends requests to the active controller; must be closed with `close`."""

    def __init__(
        self,
        *,
        find: Callable[[], BrokerAddress | None],
        environment: Environment,
        settings: ConnectionSettings,
        clock: Clock,
        slices: Slices,
        local: LocalController | None = None,
        grace_ms: int = FORMER_CONTROLLER_GRACE_MS,
    ) -> None:
        """Create a channel without a connection.

        `find` returns the address of the active controller; None if it is unknown. `grace_ms` is the time
        that a connection to a former controller stays open.
        """
        self._find = find
        self._environment = environment
        self._settings = settings
        self._clock = clock
        self._slices = slices
        self._local = local
        self._grace_ms = grace_ms
        self._in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._connection: BrokerConnection | None = None
        self._connect_lock = asyncio.Lock()
        self._change_event = asyncio.Event()
        self._is_closed = False

    async def request(self, message: ApiMessage, response: type[ResponseT], *, deadline: int) -> ResponseT:
        """Return the active controller's response.

        `deadline` is in milliseconds of the monotonic clock. Error codes inside the response are for the
        caller to handle.
        Errors: KafkaError REQUEST_TIMED_OUT at the `deadline`, UNSUPPORTED_VERSION if the controller
        does not serve the API.
        """
        left_ms = max(0, deadline - self._clock.monotonic_ms())
        try:
            async with asyncio.timeout(left_ms / 1000), self._in_flight:
                result = await self._send_until_deadline(message)
        except TimeoutError:
            name = APIS[message.api_key].name
            text = f"the active controller did not respond to {name} within {left_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        assert isinstance(result, response), f"{type(result).__name__} for {type(message).__name__}"
        return result

    @property
    def versions(self) -> ApiVersions | None:
        """The API versions of the active controller; None if they are unknown, or it is this node."""
        connection = self._connection
        is_remote = self._local is None or not self._local.is_active
        return connection.api_versions if is_remote and connection is not None else None

    def on_controller_changed(self) -> None:
        """Use the current active controller from now on; it may be another node or this one."""
        self._change_event.set()
        self._change_event = asyncio.Event()
        address = self._find()
        if address is not None:
            self._close_former_connection(address)

    async def close(self) -> None:
        """Close the connection; requests in flight fail with NOT_CONTROLLER or a network error."""
        self._is_closed = True
        self._change_event.set()
        if self._connection is not None:
            self._connection.close()

    async def _send_until_deadline(self, message: ApiMessage) -> ApiMessage:
        """Send the request again after each retriable error, until the caller's timeout cancels it."""
        attempt = 0
        while True:
            if self._is_closed:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the node is stopping")
            changed = self._change_event
            try:
                return await self._send_once(message)
            except (KafkaError, OSError, TimeoutError) as error:
                if isinstance(error, KafkaError) and error.code not in _RETRIABLE:
                    raise
                logger.debug("%s to the controller failed: %s", APIS[message.api_key].name, error)
            delay_ms = _BACKOFF.delay_ms(attempt, self._environment.rng)
            attempt += 1
            try:
                await asyncio.wait_for(changed.wait(), delay_ms / 1000)
            except TimeoutError:
                continue

    async def _send_once(self, message: ApiMessage) -> ApiMessage:
        if self._local is not None and self._local.is_active:
            result = await self._local.handle(message)
        else:
            connection = await self._ensure_connected()
            result = await connection.send(message, connection.version_of(message.api_key))
        if await self._slices.complete(contains_error(result, ErrorCode.NOT_CONTROLLER)):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the requested node is not the active controller")
        return result

    async def _ensure_connected(self) -> BrokerConnection:
        async with self._connect_lock:
            address = self._find()
            if address is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the active controller is not known")
            self._close_former_connection(address)
            if self._connection is not None and self._connection.is_open:
                return self._connection
            self._connection = await self._open(address)
            return self._connection

    async def _open(self, address: BrokerAddress) -> BrokerConnection:
        """Connect; raise KafkaError NOT_CONTROLLER if another node becomes the controller first."""
        loop = asyncio.get_running_loop()
        opening = loop.create_task(open_connection(self._environment, self._settings, address))
        try:
            while True:
                changed = loop.create_task(self._change_event.wait())
                try:
                    await asyncio.wait((opening, changed), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if opening.done():
                    return opening.result()
                if self._is_closed or self._find() != address:
                    text = f"node {address.node_id} is no longer the active controller"
                    raise KafkaError(ErrorCode.NOT_CONTROLLER, text)
        except BaseException:
            opening.cancel()
            opening.add_done_callback(_discard)
            raise

    def _close_former_connection(self, address: BrokerAddress) -> None:
        connection = self._connection
        if connection is not None and connection.node_id != address.node_id:
            self._connection = None
            asyncio.get_running_loop().call_later(self._grace_ms / 1000, connection.close)


def _discard(opening: asyncio.Task[BrokerConnection]) -> None:
    """Close a connection that was opened although its opening was cancelled."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
