"""The time at which a client replaces its token: the keys `sasl.login.refresh.*` with Kafka's defaults."""

from __future__ import annotations

import pytest

from tests.support.clocks.manual_clock import NOW_MS
from tidelog.security.oauthbearer.refresh_time import RefreshSettings, refresh_time_ms
from tidelog.security.oauthbearer.token import BearerToken

SETTINGS = RefreshSettings(window_factor=0.8, window_jitter=0.05, min_period_ms=60_000, buffer_ms=300_000)


@pytest.mark.parametrize(
    ("lifetime_s", "age_s", "expected_s"),
    [
        # 80 % of the lifetime.
        (3600, 0, 2880),
        (3600, 600, 2280),
        # At least 5 minutes before the end.
        (1000, 0, 700),
        # At least one minute after the login.
        (3600, 2900, 60),
        # Too short for both: 80 % of the remaining time.
        (300, 0, 240),
        (3600, 3500, 80),
    ],
)
def test_the_token_is_replaced_before_it_expires(lifetime_s: int, age_s: int, expected_s: int) -> None:
    issued_ms = NOW_MS - age_s * 1000
    token = BearerToken(
        value="x", principal="alice", issued_ms=issued_ms, expires_ms=issued_ms + lifetime_s * 1000
    )
    assert refresh_time_ms(token, SETTINGS, NOW_MS, 0.0) == NOW_MS + expected_s * 1000


def test_a_random_part_spreads_the_requests() -> None:
    token = BearerToken(value="x", principal="alice", expires_ms=NOW_MS + 10_000_000)
    assert refresh_time_ms(token, SETTINGS, NOW_MS, 1.0) == NOW_MS + 8_500_000
