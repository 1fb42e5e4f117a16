"""A token bucket: permits that are refilled at the rate of a quota, up to the burst of all windows together.

A rate over windows is unsuitable for single large requests, because one of them would exceed the quota until
its sample expires. A negative bucket needs only the time that refilling it to zero takes.

Source: KIP-599; TokenBucket of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.base.sampled_rate import Windows, rounded_throttle_time_ms


class TokenBucket:
    """The tokens of one client. A new bucket is full."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows, quota: float, now_ms: int) -> None:
        self._windows = windows
        self._tokens = self._burst(quota)
        self._updated_ms = now_ms

    def take(self, tokens: float, quota: float, now_ms: int) -> None:
        """Take tokens; the bucket may become negative."""
        self._tokens = self.tokens(quota, now_ms) - tokens

    def tokens(self, quota: float, now_ms: int) -> float:
        """Return the available tokens, after those since the last call were added."""
        refilled = self._tokens + quota * (now_ms - self._updated_ms) / 1000
        self._tokens = min(self._burst(quota), refilled)
        self._updated_ms = now_ms
        return self._tokens

    def throttle_time_ms(self, quota: float, now_ms: int) -> int:
        """Return the time until the bucket is no longer negative."""
        tokens = self.tokens(quota, now_ms)
        return rounded_throttle_time_ms(-tokens / quota * 1000) if tokens < 0 else 0

    def _burst(self, quota: float) -> float:
        return quota * self._windows.total_ms / 1000
