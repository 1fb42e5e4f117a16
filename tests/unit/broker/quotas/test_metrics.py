"""The metrics of quotas, as the endpoint renders them."""

from __future__ import annotations

from tests.support.clocks.manual_clock import ManualClock
from tidelog.base.sampled_rate import Windows
from tidelog.broker.network.config import UNLIMITED
from tidelog.broker.network.connection_rates import ConnectionRates
from tidelog.broker.network.counters import NetworkCounters
from tidelog.broker.observability.exposition import Exposition
from tidelog.broker.observability.metrics import BrokerMetrics
from tidelog.broker.quotas.metrics import (
    report_connection_rates,
    report_mutation_quotas,
    report_request_quotas,
)
from tidelog.broker.quotas.mutation_quotas import MutationQuotas, MutationState
from tidelog.broker.quotas.request_quotas import RequestQuotas
from tidelog.broker.quotas.resolution import Client

WINDOWS = Windows(11, 1_000)
APP = Client("alice", 'a "quoted" app')


def test_rates_tokens_and_throttle_times_are_reported_for_each_client() -> None:
    clock, metrics = ManualClock(), BrokerMetrics()
    now_ms = clock.monotonic_ms()
    quotas = RequestQuotas(clock, WINDOWS)
    mutations = MutationQuotas(clock, WINDOWS)
    connections = ConnectionRates(WINDOWS, 1)
    report_request_quotas(metrics, quotas, NetworkCounters())
    report_mutation_quotas(metrics, mutations)
    report_connection_rates(metrics, connections, clock)
    quotas.produce.update({(("user", "alice"),): {"producer_byte_rate": 100.0}})
    quotas.produce.record(APP, 1_500, now_ms)
    quotas.produce.count_throttle(APP, 5_000)
    mutations.entities.use(APP, lambda: MutationState(WINDOWS, 2, now_ms), now_ms).record(3, 2, now_ms)
    connections.update(1, {"PLAINTEXT": UNLIMITED})
    for _ in range(12):
        connections.admit("PLAINTEXT", "10.0.0.1", now_ms, is_protected=False)
    text = Exposition(metrics).text()[0].decode()
    for line in (
        'kafka_server_produce_byte_rate{client_id="",user="alice"} 150.0',
        'kafka_server_produce_throttle_time_seconds_total{client_id="",user="alice"} 5.0',
        'kafka_server_produce_throttles_total{client_id="",user="alice"} 1.0',
        'kafka_server_controllermutation_tokens{client_id="a \\"quoted\\" app",user="alice"} 19.0',
        "kafka_server_socketservermetrics_broker_connection_accept_rate 1.2",
        '_connection_accept_throttle_time_seconds_total{listener="PLAINTEXT"} 2.0',
        "kafka_server_socketservermetrics_connections_throttled 0.0",
    ):
        assert line in text, line
