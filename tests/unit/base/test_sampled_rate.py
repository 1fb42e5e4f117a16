"""Rates over windows: Kafka's Rate and SampledStat as they are, compared with SampledRate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.base.sampled_rate import THROTTLE_TIME_MS_MAX, SampledRate, Windows

WINDOWS = Windows(11, 1_000)


class KafkaRate:
    """The algorithm of Apache Kafka: a ring of samples that are cleared and used again."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.samples: list[list[float]] = []
        self.current = 0

    def record(self, value: float, now_ms: int) -> None:
        if not self.samples:
            self.samples.append([now_ms, now_ms, 0.0])
        elif now_ms - self.samples[self.current][0] >= self.windows.size_ms:
            self.current = (self.current + 1) % (self.windows.number + 1)
            if self.current >= len(self.samples):
                self.samples.append([now_ms, now_ms, 0.0])
            else:
                self.samples[self.current] = [now_ms, now_ms, 0.0]
        self.samples[self.current][1] = now_ms
        self.samples[self.current][2] += value

    def throttle_time_ms(self, quota: float, now_ms: int) -> int:
        windows = self.windows
        for sample in self.samples:
            if now_ms - sample[1] >= windows.number * windows.size_ms:
                sample[:] = [now_ms, now_ms, 0.0]
        elapsed = int(now_ms - min(start for start, _, _ in self.samples))
        full = elapsed // windows.size_ms
        if full < windows.number - 1:
            elapsed += (windows.number - 1 - full) * windows.size_ms
        elapsed = max(elapsed, 1)
        rate = sum(value for _, _, value in self.samples) / (elapsed / 1000)
        return max(0, int((rate - quota) / quota * elapsed + 0.5))


@given(
    events=st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 5_000)), min_size=1, max_size=60),
    number=st.integers(1, 12),
    quota=st.integers(1, 2_000),
)
def test_the_throttle_time_is_that_of_kafka(events: list[tuple[int, int]], number: int, quota: int) -> None:
    windows = Windows(number, 1_000)
    rate, model, now_ms = SampledRate(windows), KafkaRate(windows), 1_000_000
    for delay_ms, value in events:
        now_ms += delay_ms
        rate.record(value, now_ms)
        model.record(value, now_ms)
        assert rate.throttle_time_ms(quota, now_ms) == pytest.approx(
            model.throttle_time_ms(quota, now_ms), abs=1
        )


def test_a_client_that_waits_for_the_throttle_time_reaches_exactly_its_quota() -> None:
    quota, now_ms, sent = 10_000, 0, 0
    rate = SampledRate(WINDOWS)
    while now_ms < 120_000:
        rate.record(3_000, now_ms)
        sent += 3_000
        now_ms += max(rate.throttle_time_ms(quota, now_ms), 1)
    assert sent / 120 == pytest.approx(quota, rel=0.1)


def test_a_burst_up_to_all_windows_but_one_is_not_throttled() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(100_000, 0)
    assert rate.throttle_time_ms(10_000, 0) == 0
    rate.record(1, 0)
    assert rate.throttle_time_ms(10_000, 0) == 0, "less than a millisecond"
    rate.record(9_999, 0)
    assert rate.throttle_time_ms(10_000, 0) == 1_000


def test_an_old_sample_does_not_count() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(500_000, 0)
    assert rate.value(10_999) > 0
    assert rate.value(11_000) == 0


def test_a_value_can_be_taken_back() -> None:
    rate = SampledRate(WINDOWS)
    rate.record(500_000, 0)
    rate.record(-500_000, 0)
    assert rate.value(0) == 0


@pytest.mark.parametrize("quota", [1e-320, 0.001, 1])
def test_a_throttle_time_fits_in_a_response(quota: float) -> None:
    rate = SampledRate(WINDOWS)
    rate.record(2**40, 0)
    assert rate.throttle_time_ms(quota, 0) == THROTTLE_TIME_MS_MAX
