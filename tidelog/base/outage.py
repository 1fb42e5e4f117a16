"""An outage of a service: one line when it begins, one when it ends, and a backoff for attempts meanwhile.

    works --on_failure--> fails --on_success--> works

Callers report the outcome of each attempt, and check whether it is time for the next one. While the service
fails, one attempt is allowed after each delay of the backoff, whichever caller makes it.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, NamedTuple

from tidelog.base.backoff import ExponentialBackoff
from tidelog.base.clock import Clock
from tidelog.base.randomness import Randomness

REPEATED_AFTER_MS: Final = 600_000
"""The time after which a line repeats that the outage continues, with the number of failures."""

_log = logging.getLogger(__name__)


class OutageStatus(NamedTuple):
    """An outage that continues: its start in milliseconds since 1970, its last cause, and its failures."""

    since_ms: int
    cause: str
    failures: int


class Outage:
    """Tracks whether one kind of work fails. Thread-safe.

    `work` is the work in logs, such as "Copying to remote storage".
    """

    def __init__(self, work: str, clock: Clock, randomness: Randomness, backoff: ExponentialBackoff) -> None:
        self._work = work
        self._clock = clock
        self._randomness = randomness
        self._backoff = backoff
        self._lock = threading.Lock()
        self._status: OutageStatus | None = None
        self._next_attempt_ms = 0
        self._logged_ms = 0

    @property
    def status(self) -> OutageStatus | None:
        """The outage that continues; None if there is none."""
        return self._status

    def allows_attempt(self) -> bool:
        """Return whether an attempt may begin now; during an outage, it delays the following ones."""
        if self._status is None:
            return True
        with self._lock:
            status, now_ms = self._status, self._clock.monotonic_ms()
            if status is None:
                return True
            if now_ms < self._next_attempt_ms:
                return False
            self._next_attempt_ms = now_ms + self._delay_ms(status)
            return True

    def on_failure(self, cause: str) -> None:
        """Record an attempt that failed because the service is not available."""
        with self._lock:
            now_ms, before = self._clock.monotonic_ms(), self._status
            since_ms = self._clock.wall_ms() if before is None else before.since_ms
            failures = 1 if before is None else before.failures + 1
            self._status = status = OutageStatus(since_ms, cause, failures)
            delay_ms = self._delay_ms(status)
            self._next_attempt_ms = now_ms + delay_ms
            is_repeated = now_ms - self._logged_ms >= REPEATED_AFTER_MS
            if before is None or is_repeated:
                self._logged_ms = now_ms
        if before is None:
            _log.warning("%s fails: %s; retrying with increasing delays, up to %d s", self._work, cause,
                         self._backoff.max_ms // 1000)  # fmt: skip
        elif is_repeated:
            _log.info("%s still fails after %d attempts: %s", self._work, failures, cause)

    def on_success(self) -> None:
        """Record an attempt that succeeded."""
        if self._status is None:
            return
        with self._lock:
            status, self._status = self._status, None
        if status is not None:
            duration_s = (self._clock.wall_ms() - status.since_ms) / 1000
            _log.info(
                "%s works again after %.0f s and %d failed attempts", self._work, duration_s, status.failures
            )

    def _delay_ms(self, status: OutageStatus) -> int:
        return self._backoff.delay_ms(status.failures - 1, self._randomness)
