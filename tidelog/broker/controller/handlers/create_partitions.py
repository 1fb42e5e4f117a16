"""CreatePartitions (key 37), versions 0-3: add partitions to topics."""

from __future__ import annotations

from tidelog.base.randomness import Randomness
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.create_partitions import create_partitions
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse


class CreatePartitionsHandler:
    """Submits the request to the controller."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings, randomness: Randomness) -> None:
        self._store = store
        self._settings = settings
        self._randomness = randomness

    async def handle(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> CreatePartitionsResponse:
        """Return the outcome of each topic when its partitions are durable and in this node's image."""
        return await self._store.submit(
            lambda image: create_partitions(image, self._settings, request, self._randomness)
        )
