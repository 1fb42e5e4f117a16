"""ElectLeaders (key 43), versions 0-2: elect preferred leaders; from version 1 also unclean leaders."""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.elect_leaders import elect_leaders
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
)


class ElectLeadersHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings) -> None:
        self._store = store
        self._settings = settings

    async def handle(self, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
        """Return the outcome of each partition when the new leaders are durable."""
        return await self._store.submit(lambda image: elect_leaders(image, self._settings, request))
