"""DeleteTopics (key 20), versions 1-6: delete topics by name, from version 6 also by id."""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.delete_topics import delete_topics
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse


class DeleteTopicsHandler:
    """Submits the request to the controller."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings) -> None:
        self._store = store
        self._settings = settings

    async def handle(self, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        """Return the outcome of each topic when the deletion is durable. Errors: TOPIC_DELETION_DISABLED."""
        version = context.header.api_version
        return await self._store.submit(lambda image: delete_topics(image, self._settings, request, version))
