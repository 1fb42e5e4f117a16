"""Typed requests to the active controller: in process when this node is it, else over the network.

What fails for a reason that passes (no controller is known, it is not the controller any more, the
connection is lost) is sent again until the deadline. A request may therefore be carried out twice, as
with Kafka: those that change something say of what state they start from, or answer that it is done.

When another node becomes the controller, answers of the former one are waited for a little longer;
then its connection is closed and what was in flight goes to the new one. Attempts to connect to the
former one end at once.

Requests of one channel stand in line behind each other at the controller; who must not wait for
others (heartbeats) has a channel of its own.

Bounds: `MAX_IN_FLIGHT` requests at once, others wait for a place.
Units: deadlines in milliseconds of the clock's `monotonic_ms`.
Source: NodeToControllerChannelManager of Apache Kafka 4.3.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from tidelog.base.clock import Clock
from tidelog.broker.api.response_errors import mentions
from tidelog.clients.config.environment import Environment
from tidelog.clients.transport.api_versions import ApiVersions
from tidelog.clients.transport.backoff import ExponentialBackoff
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.registry import APIS
from tidelog.protocol.schema import ApiMessage
from tidelog.protocol.steps import completed

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

MAX_IN_FLIGHT: Final = 50
_BACKOFF: Final = ExponentialBackoff(20, 200)
PATIENCE_MS: Final = 500
"""Long enough for a former controller's answers that are on their way."""

_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class LocalController(Protocol):
    """The controller of this node."""

    @property
    def is_active(self) -> bool:
        """Whether it is the active one."""
        ...

    async def answer(self, message: ApiMessage) -> ApiMessage:
        """Answer in process; KafkaError NOT_CONTROLLER when it is not active any more."""
        ...


class ControllerChannel:
    """See the module; `close` at the end."""

    def __init__(
        self,
        *,
        find: Callable[[], BrokerAddress | None],
        environment: Environment,
        settings: ConnectionSettings,
        clock: Clock,
        local: LocalController | None = None,
        patience_ms: int = PATIENCE_MS,
    ) -> None:
        """`find` names the active controller and where it listens, None while nobody knows.

        `patience_ms`: how long a former controller's answers are waited for.
        """
        self._find = find
        self._environment = environment
        self._settings = settings
        self._clock = clock
        self._local = local
        self._patience_ms = patience_ms
        self._places = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._connection: BrokerConnection | None = None
        self._connecting = asyncio.Lock()
        self._changed = asyncio.Event()
        self._closed = False

    async def request(self, message: ApiMessage, response: type[ResponseT], *, deadline: int) -> ResponseT:
        """The active controller's answer.

        Errors: KafkaError REQUEST_TIMED_OUT at the `deadline`, UNSUPPORTED_VERSION when the controller
        does not know the API. Error codes inside the answer are the caller's.
        """
        left_ms = max(0, deadline - self._clock.monotonic_ms())
        try:
            async with asyncio.timeout(left_ms / 1000), self._places:
                answer = await self._until_answered(message)
        except TimeoutError:
            name = APIS[message.api_key].name
            text = f"the active controller did not answer {name} within {left_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None
        assert isinstance(answer, response), f"{type(answer).__name__} in answer to {type(message).__name__}"
        return answer

    @property
    def versions(self) -> ApiVersions | None:
        """What the active controller speaks; None while that is not known, or it is in this node."""
        connection = self._connection
        is_remote = self._local is None or not self._local.is_active
        return connection.api_versions if is_remote and connection is not None else None

    def controller_changed(self) -> None:
        """Hear that another node, or this one, may be the active controller now."""
        self._changed.set()
        self._changed = asyncio.Event()
        address = self._find()
        if address is not None:
            self._leave_former(address)

    async def close(self) -> None:
        """Close the connection; requests in flight fail."""
        self._closed = True
        self._changed.set()
        if self._connection is not None:
            self._connection.close()

    async def _until_answered(self, message: ApiMessage) -> ApiMessage:
        attempt = 0
        while True:
            if self._closed:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the node is stopping")
            changed = self._changed
            try:
                return await self._ask(message)
            except (KafkaError, OSError, TimeoutError) as error:
                if isinstance(error, KafkaError) and error.code not in _AGAIN:
                    raise
                logger.debug("%s to the controller failed: %s", APIS[message.api_key].name, error)
            delay_ms = _BACKOFF.delay_ms(attempt, self._environment.rng)
            attempt += 1
            try:
                await asyncio.wait_for(changed.wait(), delay_ms / 1000)
            except TimeoutError:
                continue

    async def _ask(self, message: ApiMessage) -> ApiMessage:
        """One attempt."""
        if self._local is not None and self._local.is_active:
            answer = await self._local.answer(message)
        else:
            connection = await self._connected()
            answer = await connection.send(message, connection.version_of(message.api_key))
        if completed(mentions(answer, ErrorCode.NOT_CONTROLLER)):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "the node asked is not the active controller")
        return answer

    async def _connected(self) -> BrokerConnection:
        async with self._connecting:
            address = self._find()
            if address is None:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the active controller is not known")
            self._leave_former(address)
            if self._connection is not None and self._connection.is_open:
                return self._connection
            self._connection = await self._open(address)
            return self._connection

    async def _open(self, address: BrokerAddress) -> BrokerConnection:
        """Connect, unless another node turns out to be the controller meanwhile."""
        loop = asyncio.get_running_loop()
        opening = loop.create_task(open_connection(self._environment, self._settings, address))
        try:
            while True:
                changed = loop.create_task(self._changed.wait())
                try:
                    await asyncio.wait((opening, changed), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    changed.cancel()
                if opening.done():
                    return opening.result()
                if self._closed or self._find() != address:
                    text = f"node {address.node_id} is not the active controller any more"
                    raise KafkaError(ErrorCode.NOT_CONTROLLER, text)
        except BaseException:
            opening.cancel()
            opening.add_done_callback(_discard)
            raise

    def _leave_former(self, address: BrokerAddress) -> None:
        connection = self._connection
        if connection is not None and connection.node_id != address.node_id:
            self._connection = None
            asyncio.get_running_loop().call_later(self._patience_ms / 1000, connection.close)


def _discard(opening: asyncio.Task[BrokerConnection]) -> None:
    """Close a connection that nobody wants any more."""
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
