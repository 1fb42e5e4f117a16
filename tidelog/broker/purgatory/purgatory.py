"""Delayed operations: requests that wait for a condition, completed by an event of a key or by time.

    new -> try_complete --True--> completed
             |False
           watched under its keys -> check_and_complete(key) -> try_complete --True--> completed
             |the delay has passed, or parked requests use too much memory
           expire -> completed

Invariants: `on_complete` runs at most once per operation, and never for a cancelled one. A completed or
cancelled operation is in no list, timer or count, and `release` has dropped its data.
Apache Kafka removes completed operations later, when there are purge.interval.requests of them, because its
lists are linked lists under locks. Here they are removed at once, which is cheap with dictionaries.
Bounds: `ParkedMemory`, in bytes over all purgatories of a node.
I/O: none; all work is done within the calls, on one event loop.
Source: DelayedOperationPurgatory of Apache Kafka.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Final

from tidelog.broker.purgatory.parked_memory import ParkedMemory
from tidelog.broker.purgatory.timers import Timers
from tidelog.broker.purgatory.timing_wheel import TimerEntry
from tidelog.protocol.steps import Steps

logger = logging.getLogger(__name__)

_KEYS_PER_STEP: Final = 100

OPERATION_BYTES: Final = 3_500
"""The memory of a parked request: the operation, its request and closures, its timer, one watched key."""
PARTITION_BYTES: Final = 600
"""The memory of each partition of a parked request: values of request and response, and a watched key."""


class DelayedOperation(ABC):
    """A request whose response is sent when a condition holds, at the latest after `delay_ms`.

    A subclass checks the condition in `try_complete`, and returns `self.force_complete()` if it holds. It
    sends the response in `on_complete`. In `release` it drops everything that only the response needed.
    `size_bytes` is the memory that the operation uses while it is parked.
    """

    __slots__ = ("_keys", "_timer", "delay_ms", "is_completed", "purgatory", "size_bytes")

    def __init__(self, delay_ms: int, size_bytes: int = OPERATION_BYTES) -> None:
        self.delay_ms = delay_ms
        self.size_bytes = size_bytes
        self.is_completed = False
        self.purgatory: Purgatory | None = None
        self._keys: Iterable[Hashable] = ()
        self._timer: TimerEntry | None = None

    @abstractmethod
    def try_complete(self) -> bool:
        """Complete the operation with `force_complete` if its condition holds; return whether it did."""

    def try_complete_at(self, key: Hashable) -> bool:
        """Do what `try_complete` does; only the state of `key` has changed since the last check."""
        return self.try_complete()

    @abstractmethod
    def on_complete(self) -> None:
        """Send the response; called at most once."""

    @abstractmethod
    def release(self) -> None:
        """Drop data and callbacks; called once, when the operation has completed, failed or was cancelled.

        A reference to the operation that remains, for example in an abandoned request, then keeps no other
        data in memory.
        """

    def on_failure(self, error: Exception) -> None:  # noqa: B027
        """Send an error response: `try_complete` or `on_complete` raised where no caller could handle it.

        The error has been logged.
        """

    def force_complete(self) -> bool:
        """Complete the operation unless it is completed already; return whether this call completed it."""
        if self.is_completed:
            return False
        self._unwatch()
        self.on_complete()
        self.release()
        return True

    def cancel(self) -> None:
        """End the operation without a response, because the client has disconnected."""
        if not self.is_completed:
            self._unwatch()
            self.release()

    def expire(self) -> None:
        """Complete the operation as if its delay had passed. Never raises."""
        if self.is_completed:
            return
        if self.purgatory is not None:
            self.purgatory.expired_count += 1
        try:
            self.force_complete()
        except Exception as error:
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Log `error`, which was raised during completion, and end the operation with an error response."""
        logger.error("%s failed to complete; sending an error response", type(self).__name__, exc_info=error)
        if not self.is_completed:
            self._unwatch()
        try:
            self.on_failure(error)
        finally:
            self.release()

    def watch(self, purgatory: Purgatory, keys: Iterable[Hashable], timers: Timers) -> None:
        """Store the purgatory and the keys of the operation, and start the timer of its delay."""
        self.purgatory = purgatory
        self._keys = keys
        self._timer = timers.schedule(self.delay_ms, self.expire)

    def _unwatch(self) -> None:
        self.is_completed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.purgatory is not None:
            self.purgatory.remove(self, self._keys)
            self._keys = ()


class Purgatory:
    """The parked operations of one kind; `name` is for metrics.

    `delayed_count` is the number of operations. `watched_count` is the number of their keys: an operation
    under three keys counts three times. `expired_count` is the total of operations that completed because
    their delay had passed, or early to free memory.
    """

    def __init__(self, name: str, timers: Timers, memory: ParkedMemory | None = None) -> None:
        """Create an empty purgatory; `memory` is shared by all purgatories of a node."""
        self.name = name
        self.delayed_count = 0
        self.watched_count = 0
        self.expired_count = 0
        self._timers = timers
        self._memory = ParkedMemory() if memory is None else memory
        self._watchers: dict[Hashable, dict[DelayedOperation, None]] = {}

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Complete the operation now if possible, else watch it; return whether it is completed.

        A key that `keys` contains more than once counts once.
        """
        assert operation.purgatory is None, "an operation waits only once"
        try:
            if operation.try_complete():
                return True
        except Exception:
            operation.is_completed = True
            operation.release()
            raise
        # No event can occur between the check and this: both run in one callback of the event loop.
        unique = dict.fromkeys(keys)
        for key in unique:
            watchers = self._watchers.get(key)
            if watchers is None:
                watchers = self._watchers[key] = {}
            watchers[operation] = None
        self.delayed_count += 1
        self.watched_count += len(unique)
        operation.watch(self, unique, self._timers)
        self._memory.add(operation)
        self._memory.enforce_limit()
        return operation.is_completed

    def watch_in_steps(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> Steps[None]:
        """Watch an operation under many keys, without checking whether it can complete.

        The caller checks that afterwards. The operation may expire before the last key is added.
        """
        assert operation.purgatory is None, "an operation waits only once"
        watched: dict[Hashable, None] = {}
        self.delayed_count += 1
        operation.watch(self, watched, self._timers)
        self._memory.add(operation)
        self._memory.enforce_limit()
        for number, key in enumerate(keys, 1):
            if operation.is_completed:
                return
            if key not in watched:
                watched[key] = None
                self._watchers.setdefault(key, {})[operation] = None
                self.watched_count += 1
            if not number % _KEYS_PER_STEP:
                yield None

    def check_and_complete(self, key: Hashable) -> int:
        """Complete the operations under `key` whose condition holds now; return their number.

        Never raises: `on_failure` is called for an operation that fails, and the others are checked.
        """
        watchers = self._watchers.get(key)
        if watchers is None:
            return 0
        completed = 0
        # A copy, because completion changes the dictionary. Operations that are added now were just checked.
        for operation in tuple(watchers):
            if operation.is_completed:
                continue
            try:
                completed += operation.try_complete_at(key)
            except Exception as error:
                operation.fail(error)
        return completed

    def check_all(self, keys: Iterable[Hashable]) -> None:
        """Do what `check_and_complete` does for each of `keys`, of which few are expected to be watched."""
        watchers = self._watchers
        for key in [each for each in keys if each in watchers] if watchers else ():
            self.check_and_complete(key)

    def force_all(self) -> None:
        """Complete all operations; called at shutdown."""
        for key in list(self._watchers):
            for operation in tuple(self._watchers.get(key, ())):
                try:
                    operation.force_complete()
                except Exception as error:
                    operation.fail(error)

    def remove(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> None:
        """Remove a completed operation from the lists of its keys; called by the operation."""
        for key in keys:
            watchers = self._watchers[key]
            del watchers[operation]
            if not watchers:
                del self._watchers[key]
            self.watched_count -= 1
        self.delayed_count -= 1
        self._memory.remove(operation)
