"""The budgets of a node for the bytes of requests, over all connections.

`RequestMemory` bounds requests that are being received or processed. `SpareMemory` bounds the memory that is
allocated for claimed frame sizes before the bytes are received.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from tidelog.protocol.registry import ApiKey

SPARE_BYTES: Final = 64 * 1024 * 1024
UNCOUNTED_BYTES: Final = 16 * 1024
"""Smaller requests are not counted: they fit into the buffer that every connection has."""
MESSAGE_FACTOR: Final = 16
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
SMALL_COST_BITS: Final = 20
_SHARE: Final = 4


class RequestMemory:
    """Counts the memory of requests from when their size is known until they are answered or parked.

    By default (`is_kafkas` False) only requests larger than UNCOUNTED_BYTES count. A Produce counts as its
    frame. Any other is decoded, and counts as MESSAGE_FACTOR times its frame, at most as MESSAGE_BYTES_MAX
    more than it, since messages are limited in elements. A request may begin if it takes at most a quarter
    of what is left, so that large ones do not keep small ones out, or if there is no other.

    With `queued.max.request.bytes` every request counts, as its frame, and may begin while any of the budget
    is left, as in Kafka.

    Requests that have to wait are admitted in their order among those of about the same size, up to 1 MiB or
    up to the next power of two: large ones that do not fit do not hold up small ones that do.
    """

    __slots__ = ("_is_kafkas", "_waiting", "limit_bytes", "uncounted_bytes", "used_bytes")

    def __init__(self, limit_bytes: int, *, is_kafkas: bool = False) -> None:
        self.limit_bytes = limit_bytes
        self.uncounted_bytes = -1 if is_kafkas else UNCOUNTED_BYTES
        self.used_bytes = 0
        self._is_kafkas = is_kafkas
        self._waiting: dict[int, OrderedDict[Admission, None]] = {}
        """By size class; none is empty."""

    def cost_of(self, frame_bytes: int, api_key: int) -> int:
        """Return the bytes of memory that a request counts as."""
        if self._is_kafkas or api_key == ApiKey.PRODUCE:
            return frame_bytes
        return min(MESSAGE_FACTOR * frame_bytes, frame_bytes + MESSAGE_BYTES_MAX)

    @property
    def has_waiting(self) -> bool:
        """Whether a request waits for memory."""
        return bool(self._waiting)

    def begin(self, admission: Admission) -> bool:
        """Take memory for a request if it may begin now, else have it wait; return which."""
        size_class = _size_class(admission)
        if size_class not in self._waiting and self._take(admission.cost_bytes):
            return True
        self._waiting.setdefault(size_class, OrderedDict())[admission] = None
        return False

    def _take(self, cost_bytes: int) -> bool:
        left = self.limit_bytes - self.used_bytes
        if self.used_bytes and (left <= 0 if self._is_kafkas else cost_bytes > left // _SHARE):
            return False
        self.used_bytes += cost_bytes
        return True

    def forget(self, admission: Admission) -> None:
        """Remove a request from those that wait."""
        size_class = _size_class(admission)
        waiting = self._waiting[size_class]
        del waiting[admission]
        if not waiting:
            del self._waiting[size_class]

    def release(self, cost_bytes: int) -> None:
        """Release the memory of a request, and admit waiting requests."""
        self.used_bytes -= cost_bytes
        assert self.used_bytes >= 0, f"request memory is {self.used_bytes} bytes"
        for size_class in sorted(self._waiting):
            waiting = self._waiting[size_class]
            while waiting and self._take(next(iter(waiting)).cost_bytes):
                admission, _ = waiting.popitem(last=False)
                admission.admitted()
            if not waiting:
                del self._waiting[size_class]


class Admission:
    """The memory that the request of one connection holds in RequestMemory, or waits for."""

    __slots__ = ("_clock_ms", "_memory", "_on_admitted", "cost_bytes", "is_waiting", "since_ms")

    def __init__(
        self, memory: RequestMemory, clock_ms: Callable[[], int], on_admitted: Callable[[], None]
    ) -> None:
        """`on_admitted` is called when a request that had to wait may begin."""
        self._memory = memory
        self._clock_ms = clock_ms
        self._on_admitted = on_admitted
        self.cost_bytes = 0
        self.is_waiting = False
        self.since_ms = 0
        """Since when memory is held."""

    @property
    def uncounted_bytes(self) -> int:
        """The size of the largest request that needs no memory from the budget."""
        return self._memory.uncounted_bytes

    @property
    def is_held(self) -> bool:
        """Whether memory is held."""
        return self.cost_bytes > 0 and not self.is_waiting

    def request(self, frame_bytes: int, api_key: int) -> bool:
        """Take memory for a request, or wait for it; return whether it may begin."""
        assert not self.cost_bytes, "a connection has one request at a time"
        self.cost_bytes = self._memory.cost_of(frame_bytes, api_key)
        self.is_waiting = not self._memory.begin(self)
        self.since_ms = self._clock_ms()
        return not self.is_waiting

    def admitted(self) -> None:
        """Start a request that has waited; called by RequestMemory, which has taken the memory."""
        self.is_waiting = False
        self.since_ms = self._clock_ms()
        self._on_admitted()

    def release(self) -> None:
        """Release the memory that is held, or stop waiting for it."""
        if self.is_waiting:
            self.is_waiting = False
            self._memory.forget(self)
            self.cost_bytes = 0
        elif self.cost_bytes:
            cost_bytes, self.cost_bytes = self.cost_bytes, 0
            self._memory.release(cost_bytes)


def _size_class(admission: Admission) -> int:
    return max(admission.cost_bytes.bit_length(), SMALL_COST_BITS)


class SpareMemory:
    """The memory that receive buffers may allocate before the bytes are received.

    When it is used up, a buffer grows only as bytes arrive, which costs additional copies.
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
