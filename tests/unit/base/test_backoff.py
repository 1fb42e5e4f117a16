from __future__ import annotations

from random import Random

import pytest

from tidelog.base.backoff import ExponentialBackoff


def test_the_delay_doubles_with_each_failure_up_to_its_maximum() -> None:
    backoff = ExponentialBackoff(20, 100)
    assert [backoff.base_delay_ms(attempt) for attempt in (0, 1, 2, 3, 1_000_000)] == [20, 40, 80, 100, 100]


def test_an_initial_delay_above_the_maximum_stays_constant() -> None:
    backoff = ExponentialBackoff(200, 100)
    assert [backoff.base_delay_ms(attempt) for attempt in (0, 1, 50)] == [200, 200, 200]


@pytest.mark.parametrize("jitter", [0.0, 0.2])
def test_jitter_changes_a_delay_by_at_most_its_share(jitter: float) -> None:
    backoff, rng = ExponentialBackoff(1_000, 4_000, jitter=jitter), Random(7)
    delays = [backoff.delay_ms(1, rng) for _ in range(200)]
    assert min(delays) >= 2_000 * (1 - jitter) - 1
    assert max(delays) <= 2_000 * (1 + jitter)
    assert (len(set(delays)) > 1) is (jitter > 0)
