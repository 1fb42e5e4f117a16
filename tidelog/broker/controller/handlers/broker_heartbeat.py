"""BrokerHeartbeat (key 63), versions 0-2: a broker reports that it is alive, and its state."""

from __future__ import annotations

from tidelog.base.clock import Clock
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request_context import RequestContext
from tidelog.cluster.controller.broker_heartbeat import broker_heartbeat
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.controller.settings import ControllerSettings
from tidelog.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse


class BrokerHeartbeatHandler:
    """Records the heartbeat at once, so that a slow log fences no broker; then submits the changes."""

    def __init__(
        self, store: MetadataStore, settings: ControllerSettings, heartbeats: BrokerHeartbeats, clock: Clock
    ) -> None:
        self._store = store
        self._settings = settings
        self._heartbeats = heartbeats
        self._clock = clock

    async def handle(
        self, context: RequestContext, request: BrokerHeartbeatRequest
    ) -> BrokerHeartbeatResponse:
        """Return the broker's state when the changes of this heartbeat are durable."""
        broker, epoch = request.broker_id, request.broker_epoch
        image = self._store.controller_image
        self._heartbeats.record_heartbeat(image, broker, epoch, self._clock.monotonic_ms())
        reply = await self._store.submit(
            lambda image: broker_heartbeat(image, self._settings, self._heartbeats, request)
        )
        self._heartbeats.apply_reply(
            broker,
            epoch,
            metadata_offset=request.current_metadata_offset,
            is_fenced=reply.is_fenced,
            should_shut_down=reply.should_shut_down,
            shutdown_offset=reply.shutdown_offset,
        )
        return BrokerHeartbeatResponse(
            is_caught_up=reply.is_caught_up,
            is_fenced=reply.is_fenced,
            should_shut_down=reply.should_shut_down,
        )
