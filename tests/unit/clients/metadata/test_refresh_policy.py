from __future__ import annotations

from uuid import UUID

from tests.support.transactions.accumulators import NoJitter
from tidelog.base.backoff import ExponentialBackoff
from tidelog.clients.metadata.refresh_policy import RefreshPolicy


def policy(max_idle_ms: int | None = 5_000) -> RefreshPolicy:
    backoff = ExponentialBackoff(100, 1_000)
    return RefreshPolicy(max_age_ms=10_000, max_idle_ms=max_idle_ms, backoff=backoff, rng=NoJitter())


def refreshed_policy(at_ms: int = 1_000) -> RefreshPolicy:
    ready = policy()
    ready.on_sent()
    ready.on_success(at_ms, is_complete=True)
    return ready


def test_the_first_refresh_is_required_at_once() -> None:
    assert policy().next_refresh_ms(0) == 0


def test_metadata_is_refreshed_at_its_maximum_age() -> None:
    ready = refreshed_policy(1_000)
    assert ready.next_refresh_ms(1_000) == 10_000
    assert ready.next_refresh_ms(11_000) == 0


def test_a_requested_refresh_waits_for_the_backoff() -> None:
    ready = refreshed_policy(1_000)
    ready.request()
    assert ready.next_refresh_ms(1_030) == 70
    assert ready.next_refresh_ms(1_100) == 0


def test_a_new_topic_does_not_wait_for_backoff() -> None:
    ready = refreshed_policy(1_000)
    ready.use_topic("tides", 1_010)
    assert ready.next_refresh_ms(1_010) == 0
    assert ready.topics == ("tides",)


def test_a_known_topic_requires_no_refresh() -> None:
    ready = refreshed_policy(1_000)
    ready.use_topic("tides", 1_000)
    ready.on_sent()
    ready.on_success(1_200, is_complete=True)
    ready.use_topic("tides", 1_300)
    assert ready.next_refresh_ms(1_300) == 9_900


def test_failures_back_off_exponentially_up_to_the_maximum() -> None:
    ready = policy()
    waits = []
    now_ms = 0
    for _ in range(6):
        ready.on_sent()
        ready.on_failure(now_ms)
        waits.append(ready.next_refresh_ms(now_ms))
        now_ms += waits[-1]
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


def test_an_incomplete_response_is_retried_with_increasing_backoff() -> None:
    ready = policy()
    waits = []
    for _ in range(3):
        ready.on_sent()
        ready.on_success(0, is_complete=False)
        waits.append(ready.next_refresh_ms(0))
    assert waits == [100, 200, 400]


def test_idle_topics_are_removed() -> None:
    ready = policy()
    ready.use_topic("old", 0)
    ready.use_topic("new", 4_000)
    assert ready.expire_idle(5_001) == ["old"]
    assert ready.topics == ("new",)


def test_a_consumers_topics_are_never_idle() -> None:
    ready = policy(max_idle_ms=None)
    ready.set_topics({"b", "a"}, 0)
    assert ready.expire_idle(10**9) == []
    assert ready.topics == ("a", "b")


def test_the_names_of_topic_ids_are_requested_until_they_are_found_or_not_needed() -> None:
    ready, first, second = refreshed_policy(1_000), UUID(int=1), UUID(int=2)
    ready.find_names({first, second})
    assert ready.next_refresh_ms(1_100) == 0
    assert set(ready.unknown_ids) == {first, second}
    ready.on_sent()
    ready.on_name_found(first, "tides", 1_100)
    ready.on_success(1_100, is_complete=False)
    assert (ready.topics, ready.unknown_ids) == (("tides",), (second,))
    assert ready.next_refresh_ms(1_200) == 0
    ready.on_sent()
    ready.find_names(())
    ready.on_success(1_200, is_complete=True)
    assert ready.unknown_ids == ()
    assert ready.next_refresh_ms(1_300) == 9_900
