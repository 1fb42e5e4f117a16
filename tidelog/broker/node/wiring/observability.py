"""Metrics, health and the event loop's stalls of one node, and the endpoint that serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.base.clock import Clock
from tidelog.base.version import package_version
from tidelog.broker.config.listener_tls import listener_tls_settings, uses_tls
from tidelog.broker.config.listeners import Listener, SecurityProtocol
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.observability.loop_stalls import LoopStalls
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.observability.metrics_access import MetricsAccess
from tidelog.broker.observability.metrics_endpoint import MetricsEndpoint
from tidelog.broker.observability.otlp_export import OtlpExport

HealthCheck: TypeAlias = Callable[[], str | None]
"""Returns the reason why the node is unhealthy, or None."""


class NodeObservability:
    """Owns the metrics, their endpoint and their export; parts of the node add health checks."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self.metrics = BrokerMetrics()
        self.health_checks: list[HealthCheck] = []
        self.endpoint: MetricsEndpoint | None = None
        if config.metrics_port is not None:
            self.endpoint = MetricsEndpoint(self.metrics, self._unhealthy_reason, _access(config))
        self.otlp_export = _otlp_export(config, self.metrics, clock)
        self._loop_stalls = LoopStalls(clock)
        self._loop_stalls.report_to(self.metrics)
        self.metrics.add_build(package_version(), config.node_id, config.process_roles)

    async def start(self) -> None:
        """Serve and export the metrics; measure stalls if one of both is configured.

        The measurement wakes the process 50 times in a second; it is started only if its metric can be read.
        Errors: OSError if the port cannot be bound; ConfigError if the SDK for exports is not installed.
        """
        if self.endpoint is not None and self._config.metrics_port is not None:
            await self.endpoint.start(self._config.metrics_address, self._config.metrics_port)
        if self.otlp_export is not None:
            await self.otlp_export.start()
        if self.endpoint is not None or self.otlp_export is not None:
            self._loop_stalls.start()

    async def close(self) -> None:
        """Stop measuring and close the endpoint."""
        self._loop_stalls.stop()
        if self.otlp_export is not None:
            await self.otlp_export.close()
        if self.endpoint is not None:
            await self.endpoint.close()

    def _unhealthy_reason(self) -> str | None:
        return next((reason for check in self.health_checks if (reason := check()) is not None), None)


def _otlp_export(config: BrokerConfig, metrics: BrokerMetrics, clock: Clock) -> OtlpExport | None:
    if not config.metrics_otlp_endpoint:
        return None
    attributes = {
        "service.name": "tidelog",
        "service.version": package_version(),
        "service.instance.id": str(config.node_id),
    }
    return OtlpExport(
        metrics, config.metrics_otlp_endpoint, config.metrics_otlp_interval_ms, attributes, clock
    )


def _access(config: BrokerConfig) -> MetricsAccess:
    """Return the requirements of the endpoint for its clients. Errors: ConfigError."""
    protocol = SecurityProtocol[config.metrics_security_protocol]
    listener = Listener("METRICS", config.metrics_address, config.metrics_port or 0, protocol)
    tls = listener_tls_settings(config, listener) if uses_tls(listener) else None
    return MetricsAccess(tls, config.metrics_token_file)
