"""A reserve of descriptors for important operations: checkpoints, quorum-state, syncs of directories.

They are opened in advance, on the null device. If the system has none left, one is closed, so that an
operation can open a file for a short time. After that it is opened again. Another thread may
use the free descriptor first; then the next one is closed.

Threads: any.
"""

from __future__ import annotations

import os
from threading import RLock


class DescriptorReserve:
    """A reserve of at most `size` descriptors; `release_one` and `refill` are called around operations."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = RLock()
        self._descriptors: list[int] = []

    def refill(self) -> None:
        """Open the missing descriptors, as far as the system has some."""
        if len(self._descriptors) >= self.size:
            return
        with self._lock:
            while len(self._descriptors) < self.size:
                try:
                    self._descriptors.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
                except OSError:
                    return

    def release_one(self) -> bool:
        """Close one descriptor; return False if there is none."""
        with self._lock:
            if not self._descriptors:
                return False
            os.close(self._descriptors.pop())
            return True

    def __del__(self) -> None:
        while self.release_one():
            pass
