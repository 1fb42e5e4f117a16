"""ControllerRegistration (key 70), version 0: a controller registers its listeners (KIP-919)."""

from __future__ import annotations

from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.controllers import register_controller
from tidelog.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


class ControllerRegistrationHandler:
    """Submits the request as a command that changes the metadata."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def handle(
        self, context: RequestContext, request: ControllerRegistrationRequest
    ) -> ControllerRegistrationResponse:
        """Return when the registration is durable."""
        await self._store.submit(lambda image: register_controller(image, request))
        return ControllerRegistrationResponse(error_message=None)
