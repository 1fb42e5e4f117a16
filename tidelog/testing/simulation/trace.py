"""What happened in a simulation: a digest of all events, and a timeline for readers.

Two runs of one seed have the same digest; the first event that differs shows where a run depends on something
outside the simulation. The timeline has the faults, the log lines of the nodes and the notes of the workload.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from typing import Final

TIMELINE_LINES_MAX: Final = 20_000
_EVENTS_PER_UPDATE: Final = 1_000
_NS_PER_S: Final = 1_000_000_000


class Trace:
    """The events of one run. Bounds: the last TIMELINE_LINES_MAX lines are kept."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._digest = blake2b(digest_size=16)
        self._pending: list[str] = []
        """The events that are not in the digest yet; at most _EVENTS_PER_UPDATE."""
        self._timeline: deque[str] = deque(maxlen=TIMELINE_LINES_MAX)
        self.on_event: Callable[[str], None] | None = None
        """Called with each event as text, to find the first difference of two runs."""

    def event(self, kind: str, where: str, detail: object = "") -> None:
        """Add an event to the digest."""
        text = f"{self._now_ns()} {kind} {where} {detail}\n"
        self._pending.append(text)
        if len(self._pending) == _EVENTS_PER_UPDATE:
            self._update_digest()
        if self.on_event is not None:
            self.on_event(text)

    def _update_digest(self) -> None:
        self._digest.update("".join(self._pending).encode())
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
