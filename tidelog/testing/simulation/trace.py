"""What happened in a simulation: a digest of all events, and a timeline for readers.

Two runs of one seed have the same digest; the first event that differs shows where a run depends on something
outside the simulation. The timeline has the faults, the log lines of the nodes and the notes of the workload.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from struct import pack
from typing import Final

TIMELINE_LINES_MAX: Final = 20_000
_NUMBERS_PER_UPDATE: Final = 3_000
_NS_PER_S: Final = 1_000_000_000


class Trace:
    """The events of one run. Bounds: the last TIMELINE_LINES_MAX lines are kept."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._digest = blake2b(digest_size=16)
        self._pending: list[int] = []
        """Time, code and number of the events that are not in the digest yet."""
        self._names: list[str] = []
        """The name of each code: a process, a side of a connection, or a fault."""
        self._timeline: deque[str] = deque(maxlen=TIMELINE_LINES_MAX)
        self.on_event: Callable[[str], None] | None = None
        """Called with each event as text, to find the first difference of two runs."""

    def code(self, name: str) -> int:
        """Return the code of a kind of event."""
        self._update_digest()
        self._digest.update(name.encode())
        self._names.append(name)
        return len(self._names) - 1

    def add(self, code: int, number: int = 0) -> None:
        """Add an event to the digest."""
        now_ns, pending = self._now_ns(), self._pending
        pending += now_ns, code, number
        if len(pending) == _NUMBERS_PER_UPDATE:
            self._update_digest()
        if self.on_event is not None:
            self.on_event(f"{now_ns} {self._names[code]} {number}")

    def _update_digest(self) -> None:
        self._digest.update(pack(f"<{len(self._pending)}Q", *self._pending))
        self._pending.clear()

    def note(self, where: str, text: str) -> None:
        """Add a line to the timeline, with the virtual time in seconds."""
        self._timeline.append(f"{self._now_ns() / _NS_PER_S:12.6f}  {where:<10} {text}")

    @property
    def timeline(self) -> list[str]:
        """The lines of the timeline, oldest first."""
        return list(self._timeline)

    def digest(self) -> str:
        """Return the digest of all events so far."""
        self._update_digest()
        return self._digest.hexdigest()
