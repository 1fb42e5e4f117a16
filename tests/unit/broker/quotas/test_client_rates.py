"""The rates of clients against quotas that change."""

from __future__ import annotations

from tidelog.base.sampled_rate import Windows
from tidelog.broker.quotas.client_rates import ClientRates
from tidelog.broker.quotas.resolution import Client

KEY = "producer_byte_rate"
DEFAULT_CLIENT = (("client-id", None),)
ALICE = (("user", "alice"),)
APP = Client("alice", "app")


def rates(limit: float = 1_000, throttle_time_max_ms: int | None = None) -> ClientRates:
    client_rates = ClientRates(KEY, Windows(11, 1_000), throttle_time_max_ms)
    client_rates.update({DEFAULT_CLIENT: {KEY: limit}})
    return client_rates


def test_each_client_id_has_a_rate_of_its_own() -> None:
    client_rates = rates()
    assert client_rates.record(APP, 20_000, 0) == 10_000
    assert client_rates.record(Client("alice", "other"), 10_000, 0) == 0


def test_the_clients_of_a_user_share_its_quota() -> None:
    client_rates = rates()
    client_rates.update({ALICE: {KEY: 1_000.0}})
    assert client_rates.record(APP, 10_000, 0) == 0
    assert client_rates.record(Client("alice", "other"), 1_000, 0) == 1_000


def test_a_changed_quota_applies_to_earlier_measurements() -> None:
    client_rates = rates()
    assert client_rates.record(APP, 10_000, 0) == 0
    client_rates.update({DEFAULT_CLIENT: {KEY: 500.0}})
    assert client_rates.throttle_time_ms(APP, 0) == 10_000
    client_rates.update({DEFAULT_CLIENT: {KEY: 1_000_000.0}})
    assert client_rates.throttle_time_ms(APP, 0) == 0


def test_a_throttle_time_may_be_bounded() -> None:
    assert rates(throttle_time_max_ms=1_000).record(APP, 20_000, 0) == 1_000


def test_nothing_is_measured_without_quotas() -> None:
    client_rates = rates()
    client_rates.record(APP, 10_000, 0)
    assert len(client_rates.entities) == 1
    client_rates.update({})
    assert not client_rates.is_enabled
    assert client_rates.record(APP, 10_000, 0) == 0
    assert len(client_rates.entities) == 0
