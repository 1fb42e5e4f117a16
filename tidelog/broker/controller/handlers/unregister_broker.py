"""UnregisterBroker (key 64), version 0: remove the registration of a broker."""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.brokers import unregister_broker
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class UnregisterBrokerHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings) -> None:
        self._store = store
        self._settings = settings

    async def handle(
        self, context: RequestContext, request: UnregisterBrokerRequest
    ) -> UnregisterBrokerResponse:
        """Return when the removal is durable."""
        broker = request.broker_id
        await self._store.submit(lambda image: unregister_broker(image, self._settings, broker))
        return UnregisterBrokerResponse(error_message=None)
