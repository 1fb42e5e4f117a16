"""Typed requests to the brokers of this cluster by their ids: in process to this one, else over the network.

One connection per broker, opened with the first request and shared by all. Nothing is sent again here:
who asks knows whether the same broker is still the right one to ask.

Bounds: `MAX_IN_FLIGHT` requests to one broker at once, others wait for a place; one connection per broker
that was ever asked, closed when the broker is asked and has moved or is gone.
Source: InterBrokerSendThread of Apache Kafka 4.3, for what it is for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from clients.connecting import ConnectionSettings, open_connection
from clients.connection import BrokerConnection
from clients.environment import Environment
from clients.metadata import BrokerAddress
from cluster.image import MetadataImage
from protocol.errors import ErrorCode, KafkaError
from protocol.ids import BrokerId
from protocol.schema import ApiMessage

logger = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=ApiMessage)
AnswerHere = Callable[[ApiMessage], Awaitable[ApiMessage]]

MAX_IN_FLIGHT: Final = 50


def broker_address(image: MetadataImage, broker_id: BrokerId, listener: str) -> BrokerAddress:
    """Where a broker listens for others. Errors: KafkaError BROKER_NOT_AVAILABLE when it does not."""
    broker = image.brokers.get(broker_id)
    endpoint = None if broker is None else broker.endpoints.get(listener)
    if endpoint is None:
        raise KafkaError(
            ErrorCode.BROKER_NOT_AVAILABLE, f"broker {broker_id} has no listener {listener} in the metadata"
        )
    return BrokerAddress(broker_id, endpoint.host, endpoint.port)


class BrokerChannel:
    """See the module; `close` at the end."""

    def __init__(
        self,
        *,
        node_id: BrokerId,
        answer_here: AnswerHere,
        find: Callable[[BrokerId], BrokerAddress],
        environment: Environment,
        settings: ConnectionSettings,
    ) -> None:
        """`answer_here` answers what is asked of `node_id`, this broker; `find` tells where others listen.

        `find` raises KafkaError BROKER_NOT_AVAILABLE for a broker that is not known.
        """
        self._node_id = node_id
        self._answer_here = answer_here
        self._find = find
        self._environment = environment
        self._settings = settings
        self._lanes: dict[BrokerId, _Lane] = {}
        self._closed = False

    async def request(self, broker_id: BrokerId, message: ApiMessage, response: type[ResponseT]) -> ResponseT:
        """One broker's answer to one attempt, within the settings' request timeout.

        Errors: KafkaError BROKER_NOT_AVAILABLE when the broker is not known or cannot be reached: it has
        not seen the request. NETWORK_EXCEPTION and REQUEST_TIMED_OUT: it may have. UNSUPPORTED_VERSION
        when it does not know the API. Error codes inside the answer are the caller's.
        """
        if self._closed:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the node is stopping")
        if broker_id == self._node_id:
            answer = await self._answer_here(message)
        else:
            answer = await self._lane(broker_id).request(message)
        assert isinstance(answer, response), f"{type(answer).__name__} in answer to {type(message).__name__}"
        return answer

    async def close(self) -> None:
        """Close all connections; requests in flight fail."""
        self._closed = True
        for lane in self._lanes.values():
            lane.close()
        self._lanes.clear()

    def _lane(self, broker_id: BrokerId) -> _Lane:
        """The way to a broker, to where it listens now."""
        lane = self._lanes.get(broker_id)
        try:
            address = self._find(broker_id)
        except KafkaError:
            if lane is not None:
                lane.close()
                del self._lanes[broker_id]
            raise
        if lane is None or lane.address != address:
            if lane is not None:
                lane.close()
            lane = self._lanes[broker_id] = _Lane(self._environment, self._settings, address)
        return lane


class _Lane:
    """One connection to one address."""

    def __init__(
        self, environment: Environment, settings: ConnectionSettings, address: BrokerAddress
    ) -> None:
        self.address = address
        self._environment = environment
        self._settings = settings
        self._places = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._opening = asyncio.Lock()
        self._connection: BrokerConnection | None = None
        self._closed = False

    async def request(self, message: ApiMessage) -> ApiMessage:
        try:
            async with asyncio.timeout(self._settings.request_timeout_ms / 1000), self._places:
                connection = await self._connected()
                return await connection.send(message, connection.version_of(message.api_key))
        except TimeoutError:
            text = f"{self.address} did not answer within {self._settings.request_timeout_ms} ms"
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, text) from None

    def close(self) -> None:
        self._closed = True
        if self._connection is not None:
            self._connection.close()

    async def _connected(self) -> BrokerConnection:
        async with self._opening:
            if self._connection is not None and self._connection.is_open:
                return self._connection
            try:
                connection = await open_connection(self._environment, self._settings, self.address)
            except (OSError, TimeoutError, KafkaError) as error:
                text = f"{self.address} cannot be reached: {error}"
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text) from error
            if self._closed:
                connection.close()
                text = f"broker {self.address.node_id} is not at {self.address} any more"
                raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, text)
            self._connection = connection
            return connection
