"""The memory of a node for the bytes of requests, over all connections: its budgets, and its release.

`RequestMemory` bounds requests that are being received or processed. `SpareMemory` bounds the memory that is
allocated for claimed frame sizes before the bytes are received. `MemoryRelease` releases the memory of large
frames in pieces: the kernel takes 3.5 ms to release 50 MB at once.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

from tidelog.protocol.registry import ApiKey

SPARE_BYTES: Final = 64 * 1024 * 1024
UNCOUNTED_BYTES: Final = 16 * 1024
"""Smaller requests are not counted: they fit into the buffer that every connection has."""
MESSAGE_FACTOR: Final = 16
"""A decoded message may use this many times the memory of its frame."""
MESSAGE_BYTES_MAX: Final = 64 * 1024 * 1024
SMALL_COST_BITS: Final = 20
"""Requests that need less than two to this power of bytes wait in one group."""
_FREE_MEMORY_DIVISOR: Final = 4
"""A request is admitted if it takes at most this fraction of the free memory."""
RELEASED_BYTES: Final = 4 * 1024 * 1024
"""To release this much takes about 0.3 ms."""


class RequestMemory:
    """Counts the memory of requests from when their size is known until they are parked or have a response.

    By default (`counts_all_requests` False) only requests larger than UNCOUNTED_BYTES count. A Produce counts
    as the size of its frame. Other requests are decoded, and count as MESSAGE_FACTOR times the frame, but at
    most MESSAGE_BYTES_MAX more than the frame, because the elements of messages are limited. A request is
    admitted if it takes at most a quarter of the free memory, so that large requests leave memory for small
    ones. It is also admitted if no other request holds memory.

    With `queued.max.request.bytes` every request counts as the size of its frame, and is admitted while any
    memory is free, as in Kafka.

    Requests that must wait are grouped by size: up to 1 MiB, then by powers of two. Each group is admitted in
    order. Large requests that do not fit therefore do not delay small ones that do.
    """

    __slots__ = ("_counts_all_requests", "_waiting", "limit_bytes", "uncounted_bytes", "used_bytes")

    def __init__(self, limit_bytes: int, *, counts_all_requests: bool = False) -> None:
        self.limit_bytes = limit_bytes
        self.uncounted_bytes = -1 if counts_all_requests else UNCOUNTED_BYTES
        self.used_bytes = 0
        self._counts_all_requests = counts_all_requests
        self._waiting: dict[int, OrderedDict[Admission, None]] = {}
        """By size class; no value is empty."""

    def cost_of(self, frame_bytes: int, api_key: int) -> int:
        """Return the bytes of memory that a request counts as."""
        if self._counts_all_requests or api_key == ApiKey.PRODUCE:
            return frame_bytes
        return min(MESSAGE_FACTOR * frame_bytes, frame_bytes + MESSAGE_BYTES_MAX)

    @property
    def has_waiting(self) -> bool:
        """Whether a request waits for memory."""
        return bool(self._waiting)

    def admit_or_queue(self, admission: Admission) -> bool:
        """Take memory for a request, or queue it if it must wait; return whether it is admitted now."""
        size_class = _size_class(admission)
        if size_class not in self._waiting and self._take(admission.cost_bytes):
            return True
        self._waiting.setdefault(size_class, OrderedDict())[admission] = None
        return False

    def _take(self, cost_bytes: int) -> bool:
        """Take memory if the rules of the class allow it now; return whether it was taken."""
        free_bytes = self.limit_bytes - self.used_bytes
        if self._counts_all_requests:
            must_wait = free_bytes <= 0
        else:
            must_wait = cost_bytes > free_bytes // _FREE_MEMORY_DIVISOR
        if self.used_bytes and must_wait:
            return False
        self.used_bytes += cost_bytes
        return True

    def remove_waiting(self, admission: Admission) -> None:
        """Remove a request from the waiting ones."""
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
                admission.admit()
            if not waiting:
                del self._waiting[size_class]


class Admission:
    """The memory that the request of one connection holds in RequestMemory, or waits for."""

    __slots__ = ("_clock_ms", "_memory", "_on_admitted", "cost_bytes", "is_waiting", "since_ms")

    def __init__(
        self, memory: RequestMemory, clock_ms: Callable[[], int], on_admitted: Callable[[], None]
    ) -> None:
        """Create it without memory; `on_admitted` is called when a request that had to wait is admitted."""
        self._memory = memory
        self._clock_ms = clock_ms
        self._on_admitted = on_admitted
        self.cost_bytes = 0
        self.is_waiting = False
        self.since_ms = 0
        """The time since which the memory is held or waited for."""

    @property
    def uncounted_bytes(self) -> int:
        """The size of the largest request that needs no memory from the budget."""
        return self._memory.uncounted_bytes

    @property
    def is_held(self) -> bool:
        """Whether memory is held."""
        return self.cost_bytes > 0 and not self.is_waiting

    def request(self, frame_bytes: int, api_key: int) -> bool:
        """Take memory for a request, or wait for it; return whether the request is admitted now."""
        assert not self.cost_bytes, "a connection has one request at a time"
        self.cost_bytes = self._memory.cost_of(frame_bytes, api_key)
        self.is_waiting = not self._memory.admit_or_queue(self)
        self.since_ms = self._clock_ms()
        return not self.is_waiting

    def admit(self) -> None:
        """Admit the waiting request; called by RequestMemory, which has taken the memory."""
        self.is_waiting = False
        self.since_ms = self._clock_ms()
        self._on_admitted()

    def release(self) -> None:
        """Release the memory that is held, or stop waiting for it."""
        if self.is_waiting:
            self.is_waiting = False
            self._memory.remove_waiting(self)
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

    __slots__ = ("_free_bytes",)

    def __init__(self, limit_bytes: int = SPARE_BYTES) -> None:
        self._free_bytes = limit_bytes

    def try_take(self, size_bytes: int) -> bool:
        """Take `size_bytes` if that much is free; return whether it was taken."""
        if size_bytes > self._free_bytes:
            return False
        self._free_bytes -= size_bytes
        return True

    def give_back(self, size_bytes: int) -> None:
        """Release `size_bytes` that `try_take` has taken."""
        self._free_bytes += size_bytes


class MemoryRelease:
    """The memory that receive buffers and ended connections no longer use, in the order of its release.

    In each iteration of the event loop, the first mapping loses RELEASED_BYTES from its end. If a view of it
    still exists, it is left to this view, whose end releases it at once. An unsent response is released in
    one iteration, because realloc would make malloc keep more memory. `call_soon` is the loop's.
    """

    __slots__ = ("_call_soon", "_unused")

    def __init__(self, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._call_soon = call_soon
        self._unused: deque[mmap.mmap | memoryview] = deque()

    def release(self, memory: mmap.mmap | memoryview) -> None:
        """Release a mapping, which has no view any more, or a part of a response, in later iterations."""
        self._unused.append(memory)
        if len(self._unused) == 1:
            self._call_soon(self._release_piece)

    def _release_piece(self) -> None:
        if not _release_end(self._unused[0]):
            self._unused.popleft()
        if self._unused:
            self._call_soon(self._release_piece)


def _release_end(memory: mmap.mmap | memoryview) -> bool:
    """Release the last piece of a mapping; return False if the rest is to be released at once."""
    remaining_bytes = len(memory) - RELEASED_BYTES
    if isinstance(memory, memoryview) or remaining_bytes <= 0:
        return False
    try:
        memory.resize(remaining_bytes)
    except (BufferError, OSError, SystemError):
        # A view of an earlier frame still exists, or the system cannot change the size of mappings.
        return False
    return True
