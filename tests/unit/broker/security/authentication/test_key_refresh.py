"""When the keys of an identity provider are fetched."""

from __future__ import annotations

from tidelog.broker.config.oauthbearer_config import KeyRefreshSettings
from tidelog.broker.security.authentication.key_refresh import (
    EXPEDITED_INTERVAL_MS,
    UNKNOWN_ID_INTERVAL_MS,
    UNKNOWN_IDS_MAX,
    KeyRefresh,
)

SETTINGS = KeyRefreshSettings(refresh_ms=3_600_000, backoff_ms=100, backoff_max_ms=10_000)


def refresh_after_fetch(now_ms: int = 0) -> KeyRefresh:
    refresh = KeyRefresh(SETTINGS, now_ms)
    assert refresh.next_fetch_ms == now_ms
    refresh.on_fetched({"key-1"}, now_ms)
    return refresh


def test_keys_are_fetched_at_intervals() -> None:
    assert refresh_after_fetch(5).next_fetch_ms == 5 + 3_600_000


def test_an_unknown_id_expedites_the_fetch_once_in_a_minute() -> None:
    refresh = refresh_after_fetch()
    assert refresh.on_unknown_key("key-2", 5_000)
    assert refresh.next_fetch_ms == 5_000
    refresh.on_fetched({"key-1"}, 5_010)
    assert not refresh.on_unknown_key("key-2", 5_000 + UNKNOWN_ID_INTERVAL_MS - 1)
    assert refresh.next_fetch_ms == 5_010 + 3_600_000
    assert refresh.on_unknown_key("key-2", 5_000 + UNKNOWN_ID_INTERVAL_MS)


def test_a_key_that_was_found_may_be_missing_again() -> None:
    refresh = refresh_after_fetch()
    refresh.on_unknown_key("key-2", 5_000)
    refresh.on_fetched({"key-2"}, 5_010)
    assert refresh.on_unknown_key("key-2", 7_000)


def test_clients_cannot_cause_more_than_one_fetch_in_an_interval() -> None:
    refresh, fetches = refresh_after_fetch(), 0
    for now_ms in range(10, 10_000):
        refresh.on_unknown_key(f"id-{now_ms}", now_ms)
        if refresh.next_fetch_ms <= now_ms:
            refresh.on_fetched({"key-1"}, now_ms)
            fetches += 1
    assert fetches <= 10_000 // EXPEDITED_INTERVAL_MS
    assert len(refresh._unknown_ids) <= UNKNOWN_IDS_MAX


def test_long_and_missing_ids_cause_no_fetch() -> None:
    refresh = refresh_after_fetch()
    assert not refresh.on_unknown_key("x" * 1001, 5_000)
    assert not refresh.on_unknown_key(None, 5_000)
    assert refresh.next_fetch_ms == 3_600_000


def test_failures_are_retried_with_growing_delays() -> None:
    refresh = KeyRefresh(SETTINGS, 0)
    delays = [refresh.on_failed(0) for _ in range(100)]
    assert delays[:9] == [100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000]
    assert refresh.next_fetch_ms == 10_000 == delays[-1]
    assert not refresh.on_unknown_key("key-2", 1), "a client cannot shorten the delay"
    refresh.on_fetched({"key-1"}, 20_000)
    assert refresh.on_failed(30_000) == 100
