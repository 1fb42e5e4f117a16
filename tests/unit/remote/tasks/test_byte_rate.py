"""The rate of bytes to and from remote storage, over sliding windows."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.remote.tasks.byte_rate import UNLIMITED, ByteRate


def test_without_a_limit_nothing_is_throttled() -> None:
    rate = ByteRate(UNLIMITED, 11, 1)
    rate.record(10**15, 0)
    assert rate.throttle_ms(1) == 0
    assert not rate.is_exceeded(1)


def test_work_after_a_large_transfer_waits_until_the_average_is_within_the_limit() -> None:
    rate = ByteRate(100, 11, 1)
    rate.record(500, 0)
    assert rate.is_exceeded(0)
    waited = rate.throttle_ms(0)
    assert waited == 4000
    # Later the average covers a longer time, as in Apache Kafka.
    assert rate.is_exceeded(4000)
    assert rate.throttle_ms(4000) == 1000
    assert not rate.is_exceeded(5000)


def test_transfers_older_than_all_windows_do_not_count() -> None:
    rate = ByteRate(100, 3, 1)
    rate.record(10**6, 0)
    assert rate.is_exceeded(2999)
    assert rate.throttle_ms(0) == 3000
    assert rate.rate(3000) == 0


def test_a_changed_limit_applies_at_once() -> None:
    rate = ByteRate(100, 3, 1)
    rate.record(1000, 0)
    assert rate.is_exceeded(0)
    rate.configure(1000, 3, 1)
    assert not rate.is_exceeded(0)


@given(
    limit=st.integers(1, 1000),
    windows=st.integers(1, 12),
    sizes=st.lists(st.integers(1, 5000), min_size=1, max_size=60),
)
@example(limit=667, windows=2, sizes=[1, 667, 1])
def test_throttled_work_stays_near_the_limit(limit: int, windows: int, sizes: list[int]) -> None:
    rate, now_ms = ByteRate(limit, windows, 1), 0
    for size in sizes:
        # Within the first window the average does not decrease yet: each wait may last one millisecond.
        for _ in range(1100):
            wait_ms = rate.throttle_ms(now_ms)
            if wait_ms == 0:
                break
            now_ms += wait_ms
        assert not rate.is_exceeded(now_ms)
        rate.record(size, now_ms)
    # Every window of a large transfer delays later work, at most as long as the window is counted.
    assert now_ms <= 1000 * sum(sizes) / limit + windows * 1000 * len(sizes)
