"""When to request metadata again, and for which topics.

Pure. Metadata is requested on demand (an error shows that it is stale, or a topic is new) and at the latest
after `max_age_ms`. There is a backoff between requests, which grows exponentially after failures. Topics that
were not used for `max_idle_ms` are not requested any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.randomness import Randomness

MAX_TOPICS = 100_000


class RefreshPolicy:
    """Decides when to refresh the metadata.

    Invariant: `next_refresh_ms` is not called while a request is in flight.
    Bounds: at most MAX_TOPICS topics.
    """

    def __init__(
        self, *, max_age_ms: int, max_idle_ms: int | None, backoff: ExponentialBackoff, rng: Randomness
    ) -> None:
        self._max_age_ms = max_age_ms
        self._max_idle_ms = max_idle_ms
        self._backoff = backoff
        self._rng = rng
        self._is_requested = True
        self._succeeded_ms: int | None = None
        self._not_before_ms = 0
        self._failures = 0
        self._topics: dict[str, int] = {}
        self._unknown_ids: set[UUID] = set()
        self.wants_all_topics = False

    def request(self) -> None:
        """Request a refresh when the backoff has passed."""
        self._is_requested = True

    def use_topic(self, name: str, now_ms: int) -> None:
        """Record that a topic is used; a new topic requests a refresh without backoff."""
        if name not in self._topics:
            assert len(self._topics) < MAX_TOPICS, f"more than {MAX_TOPICS} topics in one client"
            self._is_requested = True
            self._not_before_ms = now_ms
        self._topics[name] = now_ms

    def set_topics(self, names: set[str], now_ms: int) -> None:
        """Use exactly these topics (a consumer's subscription)."""
        if not names <= self._topics.keys():
            self.request()
            self._not_before_ms = now_ms
        self._topics = dict.fromkeys(sorted(names), now_ms)

    def find_names(self, topic_ids: Iterable[UUID]) -> None:
        """Request the names of exactly these topics, until they are found."""
        self._unknown_ids = set(topic_ids)
        if self._unknown_ids:
            self.request()

    def on_name_found(self, topic_id: UUID, name: str, now_ms: int) -> None:
        """Record that a response had the name of a topic, which is used from now on."""
        self._unknown_ids.discard(topic_id)
        self._topics[name] = now_ms

    @property
    def unknown_ids(self) -> tuple[UUID, ...]:
        """The ids of topics whose names are requested."""
        return tuple(self._unknown_ids)

    def expire_idle(self, now_ms: int) -> list[str]:
        """Remove the topics that were not used for `max_idle_ms` (None: no topics); return their names."""
        if self._max_idle_ms is None:
            return []
        idle = [name for name, used_ms in self._topics.items() if now_ms - used_ms > self._max_idle_ms]
        for name in idle:
            del self._topics[name]
        return idle

    def set_wants_all_topics(self, wants_all: bool) -> None:
        """Request all topics of the cluster, or only those in use."""
        self.wants_all_topics = wants_all

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to request, unless `wants_all_topics`."""
        return tuple(self._topics)

    def next_refresh_ms(self, now_ms: int) -> int:
        """Return the time until the next refresh; 0 means now."""
        until_expiry_ms = 0
        if not self._is_requested and self._succeeded_ms is not None:
            until_expiry_ms = self._succeeded_ms + self._max_age_ms - now_ms
        return max(0, until_expiry_ms, self._not_before_ms - now_ms)

    def on_sent(self) -> None:
        """Record that a request was sent; later calls of `request` need another one."""
        self._is_requested = False

    def on_success(self, now_ms: int, *, is_complete: bool) -> None:
        """Record a response; if it is not complete (a requested topic or leader is missing), back off."""
        self._succeeded_ms = now_ms
        self._is_requested |= not is_complete
        self._failures = 0 if is_complete else self._failures + 1
        attempt = 0 if is_complete else self._failures - 1
        self._not_before_ms = now_ms + self._backoff.delay_ms(attempt, self._rng)

    def on_failure(self, now_ms: int) -> None:
        """Record a failed request; the next one follows after backoff."""
        self._is_requested = True
        self._not_before_ms = now_ms + self._backoff.delay_ms(self._failures, self._rng)
        self._failures += 1
