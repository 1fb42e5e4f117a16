"""AllocateProducerIds (key 67), version 0: a block of producer ids for a broker (KIP-730)."""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.producer_ids import allocate_producer_ids
from tidelog.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


class AllocateProducerIdsHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def handle(
        self, context: RequestContext, request: AllocateProducerIdsRequest
    ) -> AllocateProducerIdsResponse:
        """Return a block of producer ids when its allocation is durable. Errors: STALE_BROKER_EPOCH."""
        broker, epoch = request.broker_id, request.broker_epoch
        block = await self._store.submit(lambda image: allocate_producer_ids(image, broker, epoch))
        return AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
