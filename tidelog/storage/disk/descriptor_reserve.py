"""A few descriptors for what should not fail: checkpoints, quorum-state, syncs of directories.

They are opened in advance, on the null device. Where the system has none left, one is closed, which makes
room for an operation that soon closes its own again; afterwards it is opened once more. Another thread may
be faster at taking the place; then the next one is closed.

Threads: any.
"""

from __future__ import annotations

import os
from threading import RLock


class DescriptorReserve:
    """At most `size` descriptors; `release_one` and `refill` are called around operations."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = RLock()
        self._descriptors: list[int] = []

    def refill(self) -> None:
        """Open what is missing, as far as there are descriptors."""
        if len(self._descriptors) >= self.size:
            return
        with self._lock:
            while len(self._descriptors) < self.size:
                try:
                    self._descriptors.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
                except OSError:
                    return

    def release_one(self) -> bool:
        """Close one; False when there is none."""
        with self._lock:
            if not self._descriptors:
                return False
            os.close(self._descriptors.pop())
            return True

    def __del__(self) -> None:
        while self.release_one():
            pass
