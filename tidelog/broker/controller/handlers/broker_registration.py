"""BrokerRegistration (key 62), versions 0-4: a broker joins the cluster as a fenced broker.

From version 3 a broker sends the epoch that it had when it stopped cleanly (KIP-966).
"""

from __future__ import annotations

from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import OWN_LISTENER, RequestContext
from tidelog.cluster.controller.brokers import register_broker
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.protocol.steps import Steps

_FIRST_WITH_PREVIOUS_EPOCH: Final = 3


class BrokerRegistrationHandler:
    """Submits the registration, and records it as a heartbeat."""

    def __init__(
        self, store: MetadataStore, settings: ControllerSettings, heartbeats: BrokerHeartbeats, clock: Clock
    ) -> None:
        self._store = store
        self._settings = settings
        self._heartbeats = heartbeats
        self._clock = clock

    async def handle(
        self, context: RequestContext, request: BrokerRegistrationRequest
    ) -> BrokerRegistrationResponse:
        """Return the broker's epoch when the registration is durable."""
        has_previous_epoch = context.header.api_version >= _FIRST_WITH_PREVIOUS_EPOCH

        def command(image: MetadataImage) -> Steps[ControllerResult[int]]:
            existing = image.brokers.get(request.broker_id)
            # This node's own broker: a former registration with its id is a former run of this process.
            is_own = context.listener == OWN_LISTENER
            has_session = (
                not is_own
                and existing is not None
                and self._heartbeats.has_session(existing.id, existing.epoch, self._clock.monotonic_ms())
            )
            return register_broker(
                image,
                self._settings,
                request,
                has_session=has_session,
                has_previous_epoch=has_previous_epoch,
            )

        epoch = await self._store.submit(command)
        image = self._store.controller_image
        self._heartbeats.record_heartbeat(image, request.broker_id, epoch, self._clock.monotonic_ms())
        return BrokerRegistrationResponse(broker_epoch=epoch)
