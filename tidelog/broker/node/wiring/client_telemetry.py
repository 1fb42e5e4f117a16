"""The receivers of the metrics of clients on one node (KIP-714)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tidelog.base.config_definition import ConfigError
from tidelog.base.extras import missing_packages
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.telemetry.client_series import ClientSeries
from tidelog.broker.telemetry.client_telemetry import ClientTelemetry, TelemetryReceiver
from tidelog.broker.telemetry.forwarding import Destination, Forwarding
from tidelog.broker.telemetry.metrics import report_client_telemetry
from tidelog.broker.telemetry.otlp_destinations import OtlpCollector, OtlpFile


class TelemetryOfClients:
    """Owns the receivers; `requests` responds to the clients."""

    def __init__(self, context: NodeContext, timers: Timers) -> None:
        """Errors: ConfigError."""
        config = context.config
        self._series: ClientSeries | None = None
        if config.client_telemetry_metrics_enable:
            self._series = ClientSeries(config.client_telemetry_series_max, context.clock.monotonic_ms)
        self._forwardings = [
            Forwarding(each, context.clock, context.randomness) for each in _destinations(config)
        ]
        receivers: list[TelemetryReceiver] = [*self._forwardings]
        if self._series is not None:
            receivers.append(self._series)
        self.requests = ClientTelemetry(config.telemetry_max_bytes, receivers, timers, context.randomness)

    async def start(self) -> None:
        """Import the classes of OpenTelemetry, and begin to forward. Errors: ConfigError."""
        missing = missing_packages("otel", "opentelemetry.proto", "opentelemetry.util")
        if missing is not None:
            raise ConfigError("client.telemetry.*", "set", f"telemetry of clients {missing}")
        # In a thread, because the import takes long.
        await asyncio.to_thread(__import__, "opentelemetry.proto.metrics.v1.metrics_pb2")
        for forwarding in self._forwardings:
            forwarding.start()

    async def close(self) -> None:
        """Stop forwarding."""
        for forwarding in self._forwardings:
            await forwarding.close()

    def report_to(self, metrics: BrokerMetrics) -> None:
        """Register the metrics of telemetry, and those of the clients."""
        report_client_telemetry(metrics, self.requests, self._series, self._forwardings)


def create_telemetry(context: NodeContext, timers: Timers) -> TelemetryOfClients | None:
    """Return the receivers; None if none is configured."""
    config = context.config
    is_configured = (
        config.client_telemetry_metrics_enable
        or config.client_telemetry_otlp_endpoint
        or config.client_telemetry_file
    )
    return TelemetryOfClients(context, timers) if is_configured else None


def _destinations(config: BrokerConfig) -> list[Destination]:
    destinations: list[Destination] = []
    if config.client_telemetry_otlp_endpoint:
        try:
            destinations.append(OtlpCollector(config.client_telemetry_otlp_endpoint))
        except ValueError as error:
            key = "client.telemetry.otlp.endpoint"
            raise ConfigError(key, config.client_telemetry_otlp_endpoint, str(error)) from None
    if config.client_telemetry_file:
        path = Path(config.client_telemetry_file)
        destinations.append(OtlpFile(path, config.client_telemetry_file_max_bytes))
    return destinations
