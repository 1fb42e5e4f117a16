"""AlterPartition (key 56), versions 2-3: a leader changes the in-sync replicas of its partitions.

From version 3 each replica is sent with its broker epoch (KIP-903).
"""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.alter_partition import alter_partition
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


class AlterPartitionHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings) -> None:
        self._store = store
        self._settings = settings

    async def handle(self, context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Return the outcome of each partition when the changes are durable."""
        return await self._store.submit(lambda image: alter_partition(image, self._settings, request))
