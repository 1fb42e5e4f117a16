"""Determines when the keys of an identity provider are fetched.

    start, then every `refresh_ms`    as configured
    a token has an unknown key id     soon, at most once in 60 s for each id
    a fetch has failed                after a delay that doubles from `backoff_ms` to `backoff_max_ms`

Differences from Apache Kafka: fetches because of unknown ids are at least `EXPEDITED_INTERVAL_MS` apart,
because clients choose the ids. A failed fetch is retried until one succeeds, not only for `backoff_max_ms`.

I/O: none. Source: RefreshingHttpsJwks of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Set
from typing import Final

from tidelog.base.backoff import ExponentialBackoff
from tidelog.broker.config.oauthbearer_config import KeyRefreshSettings
from tidelog.security.oauthbearer.token import KEY_ID_CHARACTERS_MAX

UNKNOWN_IDS_MAX: Final = 16
UNKNOWN_ID_INTERVAL_MS: Final = 60_000
EXPEDITED_INTERVAL_MS: Final = 1_000


class KeyRefresh:
    """Determines the time of the next fetch; times are those of a monotonic clock."""

    def __init__(self, settings: KeyRefreshSettings, now_ms: int) -> None:
        self.next_fetch_ms = now_ms
        """The time at which the keys must be fetched."""
        self._refresh_ms = settings.refresh_ms
        self._backoff = ExponentialBackoff(settings.backoff_ms, settings.backoff_max_ms)
        self._last_fetch_ms = now_ms - EXPEDITED_INTERVAL_MS
        self._failures = 0
        self._unknown_ids: OrderedDict[str, int] = OrderedDict()
        """The unknown key ids of tokens, and the time from which each may cause another fetch."""

    def on_unknown_key(self, key_id: str | None, now_ms: int) -> bool:
        """Return whether the next fetch is earlier because of a token with an unknown key id."""
        if key_id is None or len(key_id) > KEY_ID_CHARACTERS_MAX:
            return False
        if self._unknown_ids.get(key_id, now_ms) > now_ms:
            return False
        self._unknown_ids[key_id] = now_ms + UNKNOWN_ID_INTERVAL_MS
        self._unknown_ids.move_to_end(key_id)
        if len(self._unknown_ids) > UNKNOWN_IDS_MAX:
            self._unknown_ids.popitem(last=False)
        if self._failures:
            # The next attempt is near, and a client must not shorten its delay.
            return False
        expedited_ms = max(now_ms, self._last_fetch_ms + EXPEDITED_INTERVAL_MS)
        is_earlier = expedited_ms < self.next_fetch_ms
        self.next_fetch_ms = min(self.next_fetch_ms, expedited_ms)
        return is_earlier

    def on_fetched(self, key_ids: Set[str], now_ms: int) -> None:
        """Record a successful fetch of keys with these ids."""
        self._failures = 0
        self._last_fetch_ms = now_ms
        self.next_fetch_ms = now_ms + self._refresh_ms
        for key_id in key_ids & self._unknown_ids.keys():
            del self._unknown_ids[key_id]

    def on_failed(self, now_ms: int) -> int:
        """Record a failed fetch; return the delay until the next one."""
        delay_ms = self._backoff.base_delay_ms(self._failures)
        self._failures += 1
        self._last_fetch_ms = now_ms
        self.next_fetch_ms = now_ms + delay_ms
        return delay_ms
