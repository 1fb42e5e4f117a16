"""The counters of authentications on one listener, which the metrics read at each scrape.

A connection counts once: with TLS alone when its handshake is complete, with SASL when the exchange is
complete. Listeners with PLAINTEXT count nothing.

Units: milliseconds. Bounds: two windows for the longest re-authentication.
Source: Selector.SelectorMetrics and Processor of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import Final

from tidelog.base.dataclass import dataclass

WINDOW_MS: Final = 30_000
"""The longest re-authentication is that of the current window and of the one before."""


@dataclass(slots=True, eq=False)
class AuthenticationCounters:
    """Totals of one listener since the start."""

    succeeded: int = 0
    succeeded_without_reauthentication: int = 0
    """Those of clients that cannot authenticate again on the same connection."""
    failed: int = 0
    reauthentications: int = 0
    failed_reauthentications: int = 0
    reauthentication_ms: int = 0
    sessions_expired: int = 0
    """Connections closed because their session had expired."""
    _window: int = 0
    _longest_ms: int = 0
    _longest_ms_before: int = 0

    def on_success(self, *, can_reauthenticate: bool) -> None:
        """Count the first authentication of a connection."""
        self.succeeded += 1
        if not can_reauthenticate:
            self.succeeded_without_reauthentication += 1

    def on_failure(self, *, is_reauthentication: bool) -> None:
        """Count a failed authentication, after which the connection is closed."""
        if is_reauthentication:
            self.failed_reauthentications += 1
        else:
            self.failed += 1

    def on_session_expired(self) -> None:
        """Count a connection that is closed because its session has expired."""
        self.sessions_expired += 1

    def on_reauthentication(self, duration_ms: int, now_ms: int) -> None:
        """Count a re-authentication, from its handshake to its end."""
        self.reauthentications += 1
        self.reauthentication_ms += duration_ms
        self._advance(now_ms)
        self._longest_ms = max(self._longest_ms, duration_ms)

    def longest_reauthentication_ms(self, now_ms: int) -> int:
        """Return the longest re-authentication of the last windows; 0 without any."""
        self._advance(now_ms)
        return max(self._longest_ms, self._longest_ms_before)

    def _advance(self, now_ms: int) -> None:
        """Begin the window of `now_ms`, unless it is the current one."""
        window = now_ms // WINDOW_MS
        if window == self._window:
            return
        self._longest_ms_before = self._longest_ms if window == self._window + 1 else 0
        self._window, self._longest_ms = window, 0
