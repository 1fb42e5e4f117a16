"""GetTelemetrySubscriptions (key 71) and PushTelemetry (key 72), version 0: metrics of clients (KIP-714).

As in Kafka, both are served and advertised only by a broker with a receiver of the metrics.
"""

from __future__ import annotations

from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.network.request_context import RequestContext
from tidelog.broker.telemetry.client_telemetry import ClientTelemetry
from tidelog.protocol.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from tidelog.protocol.registry import ApiKey
from tidelog.protocol.steps import Steps


class PushTelemetryHandler:
    """Passes the metrics of clients to the receivers."""

    def __init__(self, telemetry: ClientTelemetry) -> None:
        self._telemetry = telemetry

    def handle(self, context: RequestContext, request: PushTelemetryRequest) -> Steps[PushTelemetryResponse]:
        """Return the response when the receivers have the metrics."""
        yield from self._telemetry.push(context, request)
        return PushTelemetryResponse()


def register_telemetry_apis(dispatcher: Dispatcher, telemetry: ClientTelemetry) -> None:
    """Register both APIs."""
    dispatcher.register(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, telemetry.get_subscriptions)
    dispatcher.register(ApiKey.PUSH_TELEMETRY, PushTelemetryHandler(telemetry).handle)
