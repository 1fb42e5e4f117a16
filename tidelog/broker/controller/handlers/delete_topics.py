"""DeleteTopics (key 20), versions 1-6: delete topics by name, from version 6 also by id."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.quotas.mutation_quotas import MutationQuotas
from tidelog.cluster.controller.delete_topics import delete_topics
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

_FIRST_STRICT_VERSION: Final = 5
"""Before this version a client that exceeds its quota is throttled, but gets no error (KIP-599)."""


class DeleteTopicsHandler:
    """Submits the request to the controller."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings, quotas: MutationQuotas) -> None:
        self._store = store
        self._settings = settings
        self._quotas = quotas

    async def handle(self, context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
        """Return the outcome of each topic when the deletion is durable. Errors: TOPIC_DELETION_DISABLED."""
        version = context.header.api_version
        quota = self._quotas.of(context, _FIRST_STRICT_VERSION)
        response = await self._store.submit(
            lambda image: delete_topics(image, self._settings, request, version, quota.charge)
        )
        return replace(response, throttle_time_ms=quota.throttle_time_ms())
