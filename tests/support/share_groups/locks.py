"""Timers of acquisition locks that a test advances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.broker.share_partitions.acquisition_lock import AcquisitionLock


@dataclass(eq=False)
class _Scheduled:
    lock: AcquisitionLock
    deadline_ms: int
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class ManualLockTimers:
    """Implements LockTimers; `advance` calls back for every lock whose time has passed."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._scheduled: list[_Scheduled] = []

    def schedule(self, lock: AcquisitionLock, duration_ms: int) -> _Scheduled:
        scheduled = _Scheduled(lock, self.now_ms + duration_ms)
        self._scheduled.append(scheduled)
        return scheduled

    @property
    def pending_count(self) -> int:
        """The number of locks whose timer runs."""
        return sum(not each.is_cancelled for each in self._scheduled)

    def advance(self, by_ms: int, on_expired: Callable[[AcquisitionLock], None]) -> None:
        """Let time pass; call `on_expired` for each lock that expires, in order."""
        self.now_ms += by_ms
        expired = [each for each in self._scheduled if each.deadline_ms <= self.now_ms]
        self._scheduled = [each for each in self._scheduled if each.deadline_ms > self.now_ms]
        for each in sorted(expired, key=lambda scheduled: scheduled.deadline_ms):
            if not each.is_cancelled:
                on_expired(each.lock)
