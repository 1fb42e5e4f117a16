"""CreatePartitions (key 37), versions 0-3: add partitions to topics."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tidelog.base.randomness import Randomness
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.quotas.mutation_quotas import MutationQuotas
from tidelog.cluster.controller.create_partitions import create_partitions
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

_FIRST_STRICT_VERSION: Final = 3
"""Before this version a client that exceeds its quota is throttled, but gets no error (KIP-599)."""


class CreatePartitionsHandler:
    """Submits the request to the controller."""

    def __init__(
        self,
        store: MetadataStore,
        settings: ControllerSettings,
        randomness: Randomness,
        quotas: MutationQuotas,
    ) -> None:
        self._store = store
        self._settings = settings
        self._quotas = quotas
        self._randomness = randomness

    async def handle(
        self, context: RequestContext, request: CreatePartitionsRequest
    ) -> CreatePartitionsResponse:
        """Return the outcome of each topic when its partitions are durable and in this node's image."""
        quota = self._quotas.of(context, _FIRST_STRICT_VERSION)
        response = await self._store.submit(
            lambda image: create_partitions(image, self._settings, request, self._randomness, quota.charge)
        )
        return replace(response, throttle_time_ms=quota.throttle_time_ms())
