"""A cache of descriptors of files that were read: at most `size_max`, the least recently used is removed.

A file that is being read, or sent to a client, is closed when its last user releases it: the pool only
drops its reference.

Threads: any. Lock: held while a file is opened or renamed, so that none is opened by a name that it no
longer has.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import RLock
from typing import Final, Generic, Protocol, TypeVar

SIZE_MAX: Final = 128

OpenedT = TypeVar("OpenedT")
OpenedT_co = TypeVar("OpenedT_co", covariant=True)


class Reopenable(Protocol[OpenedT_co]):
    """A file that can be opened at any time."""

    is_in_use: bool
    """Whether to cache a descriptor; the space of a deleted file is free only after it is closed."""

    def open(self) -> OpenedT_co:
        """Open the file again. Errors: OSError."""


class DescriptorPool(Generic[OpenedT]):
    """A bounded cache of open files by their owner."""

    def __init__(self, size_max: int = SIZE_MAX) -> None:
        assert size_max > 0, "a file that is read needs a descriptor"
        self._size_max = size_max
        # Reentrant: opening a file may close other files of the pool.
        self.lock = RLock()
        self._opened: OrderedDict[Reopenable[OpenedT], OpenedT] = OrderedDict()

    def __len__(self) -> int:
        return len(self._opened)

    def opened(self, file: Reopenable[OpenedT]) -> OpenedT:
        """Return `file` opened for reading. Errors: OSError."""
        with self.lock:
            opened = self._opened.get(file)
            if opened is not None:
                self._opened.move_to_end(file)
                return opened
            opened = file.open()
            if file.is_in_use:
                self._opened[file] = opened
                if len(self._opened) > self._size_max:
                    self._opened.popitem(last=False)
            return opened

    def forget(self, file: Reopenable[OpenedT]) -> None:
        """Remove the descriptor of `file` from the cache."""
        with self.lock:
            self._opened.pop(file, None)

    def shrink(self) -> bool:
        """Close half of the descriptors, at least one; return False if there are none."""
        with self.lock:
            count = (len(self._opened) + 1) // 2
            for _ in range(count):
                self._opened.popitem(last=False)
            return count > 0
