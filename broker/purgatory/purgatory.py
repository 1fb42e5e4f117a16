"""Where operations wait that cannot be answered yet: watched by keys, ended by an event or by time.

    added -> try_complete --True--> completed
               |False
             watched under its keys -> check_and_complete(key) -> try_complete --True--> completed
               |its delay is over
             force_complete -> on_expiration

Invariant: `on_complete` runs exactly once per operation, whoever comes first; not for a cancelled one.
Bounds: completed operations stay in the lists of their other keys until those are touched, or until
PURGE_INTERVAL of them have gathered; then all lists are swept.
I/O: none; everything runs in the calls it is given, on one loop. Source: Apache Kafka's
DelayedOperationPurgatory.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Final

from broker.purgatory.timers import Timers
from broker.purgatory.timing_wheel import TimerEntry

logger = logging.getLogger(__name__)

PURGE_INTERVAL: Final = 1_000


class DelayedOperation(ABC):
    """Something that is answered when a condition holds, at the latest after `delay_ms`.

    A subclass says in `try_complete` whether the condition holds, by returning
    `self.force_complete()` then, and does its work in `on_complete`.
    """

    __slots__ = ("_timer", "completed", "delay_ms", "purgatory")

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.completed = False
        self.purgatory: Purgatory | None = None
        self._timer: TimerEntry | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Complete the operation if its condition holds: `return self.force_complete()`, else False."""

    @abstractmethod
    def on_complete(self) -> None:
        """Do what was waited for; called exactly once."""

    def on_expiration(self) -> None:  # noqa: B027  (most operations have nothing to add)
        """Called after `on_complete` when it was time that ended the waiting."""

    def on_failure(self, error: Exception) -> None:  # noqa: B027
        """Called when `try_complete` or `on_complete` raised while nobody was there to hear it.

        It has been logged already; here whoever waits can be told.
        """

    def force_complete(self) -> bool:
        """Complete now unless that has happened already; True for the one call that does it."""
        if self.completed:
            return False
        self._leave()
        self.on_complete()
        return True

    def cancel(self) -> None:
        """Stop waiting and do nothing: whoever waited for it is gone."""
        if not self.completed:
            self._leave()

    def start_timer(self, timers: Timers) -> None:
        """Have the operation expire after its delay."""
        self._timer = timers.schedule(self.delay_ms, self._expire)

    def failed(self, error: Exception) -> None:
        """Log that completing did not work, and let the operation tell who waits for it."""
        logger.error("%s failed to complete", type(self).__name__, exc_info=error)
        if not self.completed:
            self._leave()
        self.on_failure(error)

    def _leave(self) -> None:
        self.completed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.purgatory is not None:
            self.purgatory.operation_completed()

    def _expire(self) -> None:
        if self.completed:
            return
        if self.purgatory is not None:
            self.purgatory.expired += 1
        try:
            self.force_complete()
            self.on_expiration()
        except Exception as error:
            self.failed(error)


class Purgatory:
    """The waiting operations of one kind; `name` is for metrics.

    `delayed` counts operations that wait, `watched` entries in watcher lists (an operation under
    three keys counts three times, completed ones until purged), `expired` those that time ended.
    """

    def __init__(self, name: str, timers: Timers, purge_interval: int = PURGE_INTERVAL) -> None:
        self.name = name
        self.delayed = 0
        self.watched = 0
        self.expired = 0
        self._timers = timers
        self._purge_interval = purge_interval
        self._watchers: dict[Hashable, list[DelayedOperation]] = {}
        self._completed_since_purge = 0

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Complete the operation now if it can be, else watch it; True if it was completed."""
        assert operation.purgatory is None, "an operation waits only once"
        if operation.try_complete():
            return True
        operation.purgatory = self
        self.delayed += 1
        # Nothing can happen between the check and the watching: both run on the loop that owns the keys.
        for key in keys:
            self._watchers.setdefault(key, []).append(operation)
            self.watched += 1
        operation.start_timer(self._timers)
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Something changed at `key`: complete what now can be, and say how many that were.

        Never raises: an operation that fails is told so by `on_failure`, the others get their turn.
        """
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        # Completing may park the next operation under this key, which then joins a list of its own.
        del self._watchers[key]
        self.watched -= len(watchers)
        completed = 0
        remaining: list[DelayedOperation] = []
        for operation in watchers:
            try:
                if not operation.completed and operation.try_complete():
                    completed += 1
            except Exception as error:
                operation.failed(error)
            if not operation.completed:
                remaining.append(operation)
        if remaining:
            self._watchers[key] = remaining + self._watchers.get(key, [])
            self.watched += len(remaining)
        return completed

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Stop watching `key`; the operations that waited there, for the caller to force."""
        watchers = self._watchers.pop(key, [])
        self.watched -= len(watchers)
        return [operation for operation in watchers if not operation.completed]

    def force_all(self) -> None:
        """Complete everything, as at shutdown."""
        for key in list(self._watchers):
            for operation in self.cancel_for_key(key):
                try:
                    operation.force_complete()
                except Exception as error:
                    operation.failed(error)

    def operation_completed(self) -> None:
        """Called by operations of this purgatory when they complete."""
        self.delayed -= 1
        self._completed_since_purge += 1
        if self._completed_since_purge > self._purge_interval:
            self.purge()

    def purge(self) -> None:
        """Drop completed operations from all lists."""
        self._completed_since_purge = 0
        self.watched = 0
        for key, watchers in list(self._watchers.items()):
            pending = [operation for operation in watchers if not operation.completed]
            if pending:
                self._watchers[key] = pending
                self.watched += len(pending)
            else:
                del self._watchers[key]
