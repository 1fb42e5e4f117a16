"""Two process-wide budgets for the bytes of requests.

`RequestMemory` is Kafka's `queued.max.request.bytes`. `SpareMemory` has no counterpart in Kafka:
it is how far the process trusts claimed sizes before the bytes have come.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

SPARE_BYTES: Final = 64 * 1024 * 1024


class RequestMemory:
    """The bytes of all requests that are being received or answered.

    Bounds: like Kafka's pool, the budget may be overshot by the one request that is let in while
    any of it is left, so a request larger than the budget is not stuck for ever.
    """

    __slots__ = ("_waiting", "limit_bytes", "used_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def try_acquire(self, size_bytes: int) -> bool:
        """Take `size_bytes` unless the budget is used up."""
        if self.used_bytes >= self.limit_bytes:
            return False
        self.used_bytes += size_bytes
        return True

    def wait(self, retry: Callable[[], None]) -> None:
        """Have `retry` called, first come first served, once something has been given back."""
        self._waiting.append(retry)

    def forget(self, retry: Callable[[], None]) -> None:
        """Take back a `wait`; harmless when there is none."""
        if retry in self._waiting:
            self._waiting.remove(retry)

    def release(self, size_bytes: int) -> None:
        """Give back what `try_acquire` took, and let those who wait try again."""
        self.used_bytes -= size_bytes
        assert self.used_bytes >= 0, f"request memory is {self.used_bytes} bytes"
        for _ in range(len(self._waiting)):
            if self.used_bytes >= self.limit_bytes:
                break
            self._waiting.popleft()()


class SpareMemory:
    """Room that receive buffers may take before the bytes that fill it have come.

    When it is used up, a buffer grows only as bytes arrive, which costs copying and nothing else.
    """

    __slots__ = ("_left",)

    def __init__(self, limit_bytes: int = SPARE_BYTES) -> None:
        self._left = limit_bytes

    def try_take(self, size_bytes: int) -> bool:
        """Take `size_bytes` if that much is left."""
        if size_bytes > self._left:
            return False
        self._left -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Return what was taken."""
        self._left += size_bytes
