"""CreateTopics (key 19), versions 2-7: create topics.

From version 5 the response describes the created topics.
"""

from __future__ import annotations

from tidelog.base.randomness import Randomness
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


class CreateTopicsHandler:
    """Submits the request to the controller."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings, randomness: Randomness) -> None:
        self._store = store
        self._settings = settings
        self._randomness = randomness

    async def handle(self, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Return the outcome of each topic when the topics are durable and in this node's image."""
        return await self._store.submit(
            lambda image: create_topics(image, self._settings, request, self._randomness)
        )
