"""When metadata is to be asked for again, and for which topics.

Pure. Asked on demand (an error said that it is stale, a topic is new) and at the latest after
`max_age_ms`; attempts keep `backoff` apart, failed ones exponentially. Topics that nobody used for
`max_idle_ms` are dropped from the question.
"""

from __future__ import annotations

from tidelog.base.randomness import Randomness
from tidelog.clients.transport.backoff import ExponentialBackoff

MAX_TOPICS = 100_000


class RefreshPolicy:
    """Decides when to refresh.

    Invariant: while a request is on its way `due_in_ms` is not consulted.
    Bounds: at most MAX_TOPICS topics of interest.
    """

    def __init__(
        self, *, max_age_ms: int, max_idle_ms: int | None, backoff: ExponentialBackoff, rng: Randomness
    ) -> None:
        self._max_age_ms = max_age_ms
        self._max_idle_ms = max_idle_ms
        self._backoff = backoff
        self._rng = rng
        self._wanted = True
        self._succeeded_ms: int | None = None
        self._not_before_ms = 0
        self._fruitless = 0
        self._topics: dict[str, int] = {}
        self.wants_all_topics = False

    def request(self) -> None:
        """Ask for a refresh as soon as backoff allows."""
        self._wanted = True

    def use_topic(self, name: str, now_ms: int) -> None:
        """Note that `name` is in use; a new one asks for a refresh without waiting for backoff."""
        if name not in self._topics:
            assert len(self._topics) < MAX_TOPICS, f"more than {MAX_TOPICS} topics in one client"
            self._wanted = True
            self._not_before_ms = now_ms
        self._topics[name] = now_ms

    def set_topics(self, names: set[str], now_ms: int) -> None:
        """Be interested in exactly these topics (a consumer's subscription)."""
        if not names <= self._topics.keys():
            self.request()
            self._not_before_ms = now_ms
        self._topics = dict.fromkeys(sorted(names), now_ms)

    def expire_idle(self, now_ms: int) -> list[str]:
        """Forget topics that nobody used for long (with `max_idle_ms` None none); returns their names."""
        if self._max_idle_ms is None:
            return []
        idle = [name for name, used_ms in self._topics.items() if now_ms - used_ms > self._max_idle_ms]
        for name in idle:
            del self._topics[name]
        return idle

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics to ask for, unless `wants_all_topics`."""
        return tuple(self._topics)

    def due_in_ms(self, now_ms: int) -> int:
        """How long until the next refresh; 0 is now."""
        age_due = 0
        if not self._wanted and self._succeeded_ms is not None:
            age_due = self._succeeded_ms + self._max_age_ms - now_ms
        return max(0, age_due, self._not_before_ms - now_ms)

    def sent(self) -> None:
        """A request is on its way; requests made from now on need another one."""
        self._wanted = False

    def succeeded(self, now_ms: int, *, fruitful: bool) -> None:
        """An answer came; not `fruitful` means it still lacks what was asked for, so back off."""
        self._succeeded_ms = now_ms
        self._wanted |= not fruitful
        self._fruitless = 0 if fruitful else self._fruitless + 1
        attempt = 0 if fruitful else self._fruitless - 1
        self._not_before_ms = now_ms + self._backoff.delay_ms(attempt, self._rng)

    def failed(self, now_ms: int) -> None:
        """No answer came; try again after backoff."""
        self._wanted = True
        self._not_before_ms = now_ms + self._backoff.delay_ms(self._fruitless, self._rng)
        self._fruitless += 1
