"""The requests and results of a soak run's clients: one JSON line per event, in order of time.

| f         | type         | value |
|-----------|--------------|-------|
| send      | invoke       | [partition, first number, last number]: these values may be written from now on |
| send      | ok           | [[number, partition, offset], ...]: acknowledged |
| send      | info         | [number, ...]: reported as failed; may be written or not |
| assign    | ok           | [partition, ...]: the next poll of these starts at the committed offset |
| poll      | ok           | [partition, first offset, [[producer, number], ...]]: consecutive offsets |
| commit    | invoke, ok   | [[partition, offset], ...] of the process's group |
| commit    | info         | the same: the response was an error, or there was none |
| committed | invoke       | null |
| committed | ok           | [[partition, offset], ...]: the committed offsets that the broker reports |
| join        | ok           | null: a member of the share group begins |
| deliver     | ok           | [partition, [[offset, producer, number], ...]]: delivered to that member |
| accept      | invoke, ok   | [partition, [offset, ...]]: accepted by that member |
| accept      | info         | the same: the response was an error, or there was none |
| kill, start | ok         | null |

`process` identifies the source: a producer's number as text, a consumer's name, "group/member" for a
group's member, "final" for the reader that reads everything at the end.
The format is that of Jepsen (invoke, ok, fail, info), so that its checkers can be used, too.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FINAL_READER = "final"


class Event(NamedTuple):
    """One line of a history; see the table above."""

    process: str
    f: str
    type: str
    value: Any
    time_ms: int = 0


class History:
    """A history during its recording; thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("w")
        self._lock = threading.Lock()
        self._started = time.monotonic()

    def add(self, process: str, f: str, type: str, value: Any = None) -> None:
        """Add an event with the current time."""
        time_ms = int((time.monotonic() - self._started) * 1000)
        line = json.dumps((process, f, type, value, time_ms), separators=(",", ":"))
        with self._lock:
            self._file.write(line + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_history(path: Path) -> Iterator[Event]:
    """Return the events of a finished history."""
    with path.open() as lines:
        for line in lines:
            yield Event(*json.loads(line))
