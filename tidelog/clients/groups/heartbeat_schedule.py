"""When the next heartbeat of a member is sent, at the interval that the coordinator has set. Pure."""

from __future__ import annotations

from typing import Final

FIRST_INTERVAL_MS: Final = 5_000
"""The interval until the first response."""


class HeartbeatSchedule:
    """The time of the next heartbeat of one member; times are monotonic, in ms."""

    __slots__ = ("_interval_ms", "_next_ms")

    def __init__(self) -> None:
        self._interval_ms = FIRST_INTERVAL_MS
        self._next_ms = 0

    def send_now(self) -> None:
        """Send the next heartbeat at once."""
        self._next_ms = 0

    def remaining_ms(self, now_ms: int) -> int:
        """Return the time until the next heartbeat has to be sent."""
        return max(0, self._next_ms - now_ms)

    def on_sent(self, now_ms: int) -> None:
        """Schedule the next heartbeat after one was sent."""
        self._next_ms = now_ms + self._interval_ms

    def on_response(self, interval_ms: int, now_ms: int) -> None:
        """Use the interval of a response, which may be shorter than the previous one."""
        self._interval_ms = interval_ms
        self._next_ms = min(self._next_ms, now_ms + interval_ms)
