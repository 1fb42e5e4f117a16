"""The metrics of authentications, by listener."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.broker.network.authentication_counters import AuthenticationCounters
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.observability.metrics import BrokerMetrics, Reading

_PREFIX: Final = "kafka_server_socketservermetrics_"
_LABELS: Final = ("listener",)


def report_authentications(metrics: BrokerMetrics, servers: tuple[NetworkServer, ...]) -> None:
    """Register the metrics of all listeners of `servers`: those of the broker and of the controller."""

    def by_listener(read: Callable[[AuthenticationCounters], float]) -> Callable[[], Reading]:
        return lambda: {
            (name,): read(server.counters.authentications[name])
            for server in servers
            for name in server.listeners
        }

    def counter(name: str, documentation: str, read: Callable[[AuthenticationCounters], float]) -> None:
        metrics.counter(_PREFIX + name, documentation, by_listener(read), _LABELS)

    counter(
        "successful_authentication",
        "Connections with successful authentication.",
        lambda counters: counters.succeeded,
    )
    counter(
        "successful_authentication_no_reauth",
        "Connections with successful authentication whose client does not support re-authentication.",
        lambda counters: counters.succeeded_without_reauthentication,
    )
    counter(
        "failed_authentication",
        "Connections with failed authentication, failed TLS handshakes included.",
        lambda counters: counters.failed,
    )
    counter(
        "successful_reauthentication",
        "Successful re-authentications of connections.",
        lambda counters: counters.reauthentications,
    )
    counter(
        "failed_reauthentication",
        "Failed re-authentications of connections.",
        lambda counters: counters.failed_reauthentications,
    )
    counter(
        "reauthentication_latency_seconds",
        "Time that successful re-authentications took.",
        lambda counters: counters.reauthentication_ms / 1000,
    )
    counter(
        "expired_connections_killed_count",
        "Connections closed because their session had expired (connections.max.reauth.ms).",
        lambda counters: counters.sessions_expired,
    )
    metrics.gauge(
        _PREFIX + "reauthentication_latency_seconds_max",
        "Time of the longest re-authentication in the last 30 to 60 s.",
        by_listener(
            lambda counters: counters.longest_reauthentication_ms(servers[0].clock.monotonic_ms()) / 1000
        ),
        _LABELS,
    )
