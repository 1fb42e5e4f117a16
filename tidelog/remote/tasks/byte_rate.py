"""A quota in bytes per second for remote storage (KIP-956): a rate over sliding windows.

Work is counted as a whole when it begins; while the rate is above the limit, no other work begins. A large
segment therefore delays the following ones, and never waits for a rate that it could not reach.

Source: RLMQuotaManager, SimpleRate, SampledStat and QuotaUtils of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import deque
from math import ceil
from typing import Final

UNLIMITED: Final = 2**63 - 1


class ByteRate:
    """A limit, and the bytes recorded in the last `window_num` windows.

    Units: bytes, milliseconds of a monotonic clock, windows in seconds.
    Bounds: `window_num` + 1 windows are kept.
    """

    __slots__ = ("_window_ms", "_window_num", "_windows", "bytes_per_second")

    def __init__(self, bytes_per_second: int, window_num: int, window_size_s: int) -> None:
        self.bytes_per_second = bytes_per_second
        self._windows: deque[list[int]] = deque()
        self.configure(bytes_per_second, window_num, window_size_s)

    def configure(self, bytes_per_second: int, window_num: int, window_size_s: int) -> None:
        """Apply changed settings; recorded bytes are kept."""
        assert bytes_per_second > 0 and window_num > 0 and window_size_s > 0
        self.bytes_per_second = bytes_per_second
        self._window_num = window_num
        self._window_ms = window_size_s * 1000

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Record that work of `size_bytes` begins."""
        self._expire_windows(now_ms)
        if not self._windows or now_ms - self._windows[-1][0] >= self._window_ms:
            self._windows.append([now_ms, 0])
        self._windows[-1][1] += size_bytes

    def rate(self, now_ms: int) -> float:
        """Return the bytes per second since the oldest window began, over at least one window."""
        self._expire_windows(now_ms)
        total = sum(size_bytes for _, size_bytes in self._windows)
        return total * 1000 / self._elapsed_ms(now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """Return whether the rate is above the limit, so that no further work may begin."""
        return self.rate(now_ms) > self.bytes_per_second

    def throttle_ms(self, now_ms: int) -> int:
        """Return the time until the rate falls to the limit; 0 if it is not above it."""
        rate = self.rate(now_ms)
        if rate <= self.bytes_per_second:
            return 0
        excess = (rate - self.bytes_per_second) / self.bytes_per_second
        # When a window expires, the rate may fall earlier than the average.
        return min(ceil(excess * self._elapsed_ms(now_ms)), self._window_num * self._window_ms)

    def _elapsed_ms(self, now_ms: int) -> int:
        oldest = self._windows[0][0] if self._windows else now_ms
        return max(now_ms - oldest, self._window_ms)

    def _expire_windows(self, now_ms: int) -> None:
        while self._windows and now_ms - self._windows[0][0] >= self._window_num * self._window_ms:
            self._windows.popleft()
