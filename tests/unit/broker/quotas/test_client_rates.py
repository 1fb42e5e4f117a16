"""The rates of clients against quotas that change."""

from __future__ import annotations

from tidelog.broker.quotas.client_rates import ClientRates
from tidelog.broker.quotas.rate import Windows
from tidelog.broker.quotas.resolution import Client

KEY = "producer_byte_rate"
DEFAULT_CLIENT = (("client-id", None),)
ALICE = (("user", "alice"),)
APP = Client("alice", "app")


def rates(limit: float = 1_000, throttle_time_max_ms: int | None = None) -> ClientRates:
    found = ClientRates(KEY, Windows(11, 1_000), throttle_time_max_ms)
    found.update({DEFAULT_CLIENT: {KEY: limit}})
    return found


def test_each_client_id_has_a_rate_of_its_own() -> None:
    found = rates()
    assert found.record(APP, 20_000, 0) == 10_000
    assert found.record(Client("alice", "other"), 10_000, 0) == 0


def test_the_clients_of_a_user_share_its_quota() -> None:
    found = rates()
    found.update({ALICE: {KEY: 1_000.0}})
    assert found.record(APP, 10_000, 0) == 0
    assert found.record(Client("alice", "other"), 1_000, 0) == 1_000


def test_a_changed_quota_applies_to_earlier_measurements() -> None:
    found = rates()
    assert found.record(APP, 10_000, 0) == 0
    found.update({DEFAULT_CLIENT: {KEY: 500.0}})
    assert found.throttle_time_ms(APP, 0) == 10_000
    found.update({DEFAULT_CLIENT: {KEY: 1_000_000.0}})
    assert found.throttle_time_ms(APP, 0) == 0


def test_a_throttle_time_may_be_bounded() -> None:
    assert rates(throttle_time_max_ms=1_000).record(APP, 20_000, 0) == 1_000


def test_nothing_is_measured_without_quotas() -> None:
    found = rates()
    found.record(APP, 10_000, 0)
    assert len(found.entities) == 1
    found.update({})
    assert not found.is_enabled
    assert found.record(APP, 10_000, 0) == 0
    assert len(found.entities) == 0
