"""Requests of a node to itself, which a dispatcher serves in process."""

from __future__ import annotations

from tidelog.base.clock import Clock
from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.request_context import NODE_PRINCIPAL, OWN_LISTENER, RequestContext
from tidelog.protocol.framing import RequestHeader
from tidelog.protocol.registry import APIS
from tidelog.protocol.schema import ApiMessage


class InProcessRequests:
    """Sends requests to `dispatcher` as a client of the same node."""

    def __init__(self, dispatcher: Dispatcher, clock: Clock, client_id: str) -> None:
        self._dispatcher = dispatcher
        self._clock = clock
        self._client_id = client_id

    async def handle(self, message: ApiMessage) -> ApiMessage:
        """Return the response to `message` in the API's highest version.

        Raise KafkaError UNSUPPORTED_VERSION if the API is not served, NOT_CONTROLLER if this node is not the
        active controller.
        """
        header = RequestHeader(message.api_key, APIS[message.api_key].highest, 0, self._client_id)
        context = RequestContext(
            header, OWN_LISTENER, "127.0.0.1:0", NODE_PRINCIPAL, self._clock.wall_ms(), ConnectedClient()
        )
        return await self._dispatcher.call(context, message)
