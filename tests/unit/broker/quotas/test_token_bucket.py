"""The token bucket of KIP-599."""

from __future__ import annotations

from tidelog.base.sampled_rate import THROTTLE_TIME_MS_MAX, Windows
from tidelog.broker.quotas.token_bucket import TokenBucket

WINDOWS = Windows(100, 1_000)


def test_the_example_of_kip_599_waits_12_seconds() -> None:
    bucket = TokenBucket(WINDOWS, 5, 0)
    bucket.take(560, 5, 0)
    assert bucket.tokens(5, 0) == -60
    assert bucket.throttle_time_ms(5, 0) == 12_000
    assert bucket.throttle_time_ms(5, 11_999) == 1
    assert bucket.throttle_time_ms(5, 12_000) == 0


def test_a_bucket_holds_at_most_the_burst_of_all_windows() -> None:
    bucket = TokenBucket(WINDOWS, 5, 0)
    assert bucket.tokens(5, 1_000_000) == 500


def test_a_lower_quota_reduces_the_burst_at_once() -> None:
    bucket = TokenBucket(WINDOWS, 5, 0)
    assert bucket.tokens(1, 0) == 100


def test_a_throttle_time_fits_in_a_response() -> None:
    bucket = TokenBucket(WINDOWS, 1e-320, 0)
    bucket.take(10_000, 1e-320, 0)
    assert bucket.throttle_time_ms(1e-320, 0) == THROTTLE_TIME_MS_MAX
