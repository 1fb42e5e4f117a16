"""AlterPartitionReassignments (key 45), versions 0-1: start or cancel the move of partitions."""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.reassignments import alter_partition_reassignments
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


class AlterPartitionReassignmentsHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings) -> None:
        self._store = store
        self._settings = settings

    async def handle(
        self, context: RequestContext, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        """Return the outcome of each partition when the start or the cancellation is durable."""
        return await self._store.submit(
            lambda image: alter_partition_reassignments(image, self._settings, request)
        )
