"""BrokerRegistration (key 62), versions 0-4: a broker joins the cluster, fenced at first.

From version 3 on a broker says which epoch it had when it stopped cleanly (KIP-966).
"""

from __future__ import annotations

from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.api.in_process import OWN_LISTENER
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.brokers import register_broker
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)

_FIRST_WITH_PREVIOUS_EPOCH: Final = 3


class BrokerRegistrationHandler:
    """Submits the registration, and counts it as a sign of life."""

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
        """Answer the broker's epoch once the registration is durable."""
        tells_previous_epoch = context.header.api_version >= _FIRST_WITH_PREVIOUS_EPOCH

        def command(image: MetadataImage) -> ControllerResult[int]:
            existing = image.brokers.get(request.broker_id)
            # The broker of this very node: whatever had its id before was a former run of it.
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
                tells_previous_epoch=tells_previous_epoch,
            )

        epoch = await self._store.submit(command)
        image = self._store.controller_image
        self._heartbeats.contact(image, request.broker_id, epoch, self._clock.monotonic_ms())
        return BrokerRegistrationResponse(broker_epoch=epoch)
