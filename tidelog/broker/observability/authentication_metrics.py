"""The metrics of authentications, by listener."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.broker.network.authentication_counters import AuthenticationCounters
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.observability.metrics import BrokerMetrics

_PREFIX = "kafka_server_socketservermetrics_"


def report_authentications(metrics: BrokerMetrics, servers: tuple[NetworkServer, ...]) -> None:
    """Register the metrics of all listeners of `servers`: of the broker, and of the controller."""

    def by_listener(
        read: Callable[[AuthenticationCounters], float],
    ) -> Callable[[], Mapping[tuple[str, ...], float]]:
        return lambda: {
            (name,): read(server.counters.authentications[name])
            for server in servers
            for name in server.listeners
        }

    for name, documentation, read in (
        ("successful_authentication", "Connections with successful authentication.", _succeeded),
        (
            "successful_authentication_no_reauth",
            "Connections with successful authentication whose client does not support re-authentication.",
            lambda one: one.succeeded_without_reauthentication,
        ),
        (
            "failed_authentication",
            "Connections with failed authentication, failed TLS handshakes included.",
            lambda one: one.failed,
        ),
        (
            "successful_reauthentication",
            "Successful re-authentications of connections.",
            lambda one: one.reauthentications,
        ),
        (
            "failed_reauthentication",
            "Failed re-authentications of connections.",
            lambda one: one.failed_reauthentications,
        ),
        (
            "reauthentication_latency_ms",
            "Milliseconds that successful re-authentications took.",
            lambda one: one.reauthentication_ms,
        ),
        (
            "expired_connections_killed_count",
            "Connections closed because their session had expired (connections.max.reauth.ms).",
            lambda one: one.sessions_expired,
        ),
    ):
        metrics.counter(_PREFIX + name, documentation, by_listener(read), ("listener",))
    metrics.gauge(
        _PREFIX + "reauthentication_latency_max",
        "Milliseconds of the longest re-authentication in the last 30 to 60 s.",
        by_listener(lambda one: one.longest_reauthentication_ms(servers[0].clock.monotonic_ms())),
        ("listener",),
    )


def _succeeded(one: AuthenticationCounters) -> float:
    return one.succeeded
