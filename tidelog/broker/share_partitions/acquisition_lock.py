"""The lock of the records that a member has acquired or renewed together: one timer for all of them."""

from __future__ import annotations

from typing import Protocol

from tidelog.protocol.ids import Offset


class TimerHandle(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call; has no effect after the call."""


class LockTimers(Protocol):
    """Calls `SharePartition.expire` when a lock expires."""

    def schedule(self, lock: AcquisitionLock, duration_ms: int) -> TimerHandle:
        """Schedule the end of `lock`."""
        ...


class AcquisitionLock:
    """A lock on records of [`first_offset`, `end_offset`) that refer to it.

    The timer is cancelled as soon as no record needs it. `is_expired` matters to records whose change is
    being stored when the time has passed: they become available if it cannot be stored.
    """

    __slots__ = ("_record_count", "_timer", "end_offset", "first_offset", "is_expired")

    def __init__(self) -> None:
        self.first_offset: Offset = -1
        self.end_offset: Offset = -1
        self.is_expired = False
        self._record_count = 0
        self._timer: TimerHandle | None = None

    @property
    def is_held(self) -> bool:
        """Whether any record refers to the lock."""
        return self._record_count > 0

    def hold(self, first_offset: Offset, end_offset: Offset) -> None:
        """Add the records of a range above those that were added before."""
        if self.first_offset < 0:
            self.first_offset = first_offset
        self.end_offset = end_offset
        self._record_count += end_offset - first_offset

    def release(self, record_count: int) -> None:
        """Remove some records; cancel the timer if there are no more."""
        self._record_count -= record_count
        assert self._record_count >= 0, f"a lock holds {self._record_count} records"
        if not self._record_count and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expire(self) -> None:
        """Note that the time of the lock has passed."""
        self.is_expired = True

    def start(self, timers: LockTimers, duration_ms: int) -> None:
        """Schedule the end of the lock, if it holds any record."""
        if self._record_count:
            self._timer = timers.schedule(self, duration_ms)
