"""AssignReplicasToDirs (key 73), version 0: a broker reports the log directories of its replicas."""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.assign_directories import assign_replicas_to_directories
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


class AssignReplicasToDirsHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore, settings: ControllerSettings) -> None:
        self._store = store
        self._settings = settings

    async def handle(
        self, context: RequestContext, request: AssignReplicasToDirsRequest
    ) -> AssignReplicasToDirsResponse:
        """Return the outcome of each replica when the assignments are durable."""
        return await self._store.submit(
            lambda image: assign_replicas_to_directories(image, self._settings, request)
        )
