"""The controller of this node, as the other parts of the node ask it: without a network between."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker.clock import Clock
from broker.dispatch import Dispatcher
from broker.network.request import ClientInformation
from broker.request_context import RequestContext
from protocol.framing import RequestHeader
from protocol.registry import APIS
from protocol.schema import ApiMessage

_OWN_PRINCIPAL: Final = "User:ANONYMOUS"
OWN_LISTENER: Final = ""
"""The listener's name in the context of a request that comes from within the node."""


class InProcessController:
    """See broker.controller_channel.LocalController; answers through the controller's dispatcher."""

    def __init__(
        self, dispatcher: Dispatcher, is_active: Callable[[], bool], clock: Clock, client_id: str
    ) -> None:
        self._dispatcher = dispatcher
        self._is_active = is_active
        self._clock = clock
        self._client_id = client_id

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""
        return self._is_active()

    async def answer(self, message: ApiMessage) -> ApiMessage:
        """Answer `message` in the API's highest version; KafkaError NOT_CONTROLLER, UNSUPPORTED_VERSION."""
        header = RequestHeader(message.api_key, APIS[message.api_key].highest, 0, self._client_id)
        context = RequestContext(
            header, OWN_LISTENER, "127.0.0.1:0", _OWN_PRINCIPAL, self._clock.wall_ms(), ClientInformation()
        )
        return await self._dispatcher.call(context, message)
