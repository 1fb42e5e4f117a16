"""The metrics of client quotas: rates and throttle times of each user and client id that has a quota."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from tidelog.base.clock import Clock
from tidelog.base.entity_states import Entities
from tidelog.broker.network.connection_rates import ConnectionRates, ListenerRate
from tidelog.broker.network.counters import NetworkCounters
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.quotas.client_rates import ClientRates
from tidelog.broker.quotas.mutation_quotas import MutationQuotas
from tidelog.broker.quotas.request_quotas import RequestQuotas
from tidelog.broker.quotas.resolution import Client

_LABELS: Final = ("user", "client_id")

StateT = TypeVar("StateT")


def report_request_quotas(metrics: BrokerMetrics, quotas: RequestQuotas, counters: NetworkCounters) -> None:
    """Register the metrics of produced bytes, fetched bytes and request time."""
    for name, rates, documentation in (
        ("produce", quotas.produce, "Bytes per second that the client produces."),
        ("fetch", quotas.fetch, "Bytes per second that the client fetches."),
    ):
        _report_rates(metrics, f"kafka_server_{name}_", ("byte_rate", documentation), rates, quotas.clock)
    report_request_time(metrics, quotas)
    metrics.gauge(
        "kafka_server_socketservermetrics_connections_throttled",
        "Connections that are muted because a client exceeds a quota.",
        lambda: counters.connections_throttled,
    )


def report_request_time(metrics: BrokerMetrics, quotas: RequestQuotas) -> None:
    """Register the metrics of request time; a node that is only a controller has no others of its clients."""
    rate = ("request_time", "Percentage of the event loop's time for the client.")
    _report_rates(metrics, "kafka_server_request_", rate, quotas.request, quotas.clock)
    metrics.gauge(
        "kafka_server_request_exempt_request_time",
        "Percentage of the event loop's time for requests that are exempt from quotas.",
        lambda: quotas.exempt_time.value(quotas.clock.monotonic_ms()),
    )


def _report_rates(
    metrics: BrokerMetrics, prefix: str, rate: tuple[str, str], rates: ClientRates, clock: Clock
) -> None:
    """Register a rate, with its name and its documentation, and the throttle times."""
    rate_name, documentation = rate
    metrics.gauge(
        prefix + rate_name,
        documentation,
        _by_client(rates.entities, lambda one: one.rate.value(clock.monotonic_ms())),
        _LABELS,
    )
    metrics.counter(
        prefix + "throttle_time_seconds",
        "Time for which the client was throttled.",
        _by_client(rates.entities, lambda one: one.throttle_time_ms / 1000),
        _LABELS,
    )
    metrics.counter(
        prefix + "throttles",
        "Responses with a throttle time.",
        _by_client(rates.entities, lambda one: one.throttles),
        _LABELS,
    )


def report_mutation_quotas(metrics: BrokerMetrics, mutations: MutationQuotas) -> None:
    """Register the metrics of partitions that clients create and delete."""
    now_ms = mutations.clock.monotonic_ms
    prefix = "kafka_server_controllermutation_"
    for name, documentation, read in (
        ("tokens", "Partitions that the client may change at once.", lambda one: one.tokens(now_ms())),
        (
            "mutation_rate",
            "Partitions per second that the client changes.",
            lambda one: one.rate.value(now_ms()),
        ),
    ):
        metrics.gauge(prefix + name, documentation, _by_client(mutations.entities, read), _LABELS)
    metrics.counter(
        prefix + "throttles",
        "Requests that exceeded the quota.",
        _by_client(mutations.entities, lambda one: one.throttles),
        _LABELS,
    )


def report_connection_rates(metrics: BrokerMetrics, rates: ConnectionRates, clock: Clock) -> None:
    """Register the metrics of new connections; rates are measured only if a limit is set."""
    now_ms = clock.monotonic_ms
    prefix = "kafka_server_socketservermetrics_"

    def by_listener(read: Callable[[ListenerRate], float]) -> Callable[[], Mapping[tuple[str, ...], float]]:
        return lambda: {(name,): read(one) for name, one in rates.listeners.items()}

    metrics.gauge(
        prefix + "broker_connection_accept_rate",
        "New connections per second.",
        lambda: rates.broker.value(now_ms()),
    )
    metrics.gauge(
        prefix + "connection_accept_rate",
        "New connections per second of the listener.",
        by_listener(lambda one: one.rate.value(now_ms())),
        ("listener",),
    )
    metrics.gauge(
        prefix + "ip_connection_accept_rate",
        "New connections per second of an address that has a quota.",
        lambda: {(address,): rate.value(now_ms()) for address, rate in rates.addresses.items()},
        ("ip",),
    )
    metrics.counter(
        prefix + "connection_accept_throttle_time_seconds",
        "Time that connections waited because of the rate of the listener or the broker.",
        by_listener(lambda one: one.throttle_time_ms / 1000),
        ("listener",),
    )
    metrics.counter(
        prefix + "ip_connection_accept_throttle_time_seconds",
        "Time that connections waited to be closed because of the rate of their address.",
        by_listener(lambda one: one.address_throttle_time_ms / 1000),
        ("listener",),
    )


def _by_client(
    entities: Entities[Client, StateT], read: Callable[[StateT], float]
) -> Callable[[], Mapping[tuple[str, ...], float]]:
    return lambda: {tuple(client): read(state) for client, state in entities.items()}
