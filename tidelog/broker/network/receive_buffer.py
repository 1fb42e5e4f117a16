"""One connection's received bytes, divided into frames without copying them.

    | handled | current frame | received, not yet handled |  free  |
              ^ pinned        ^ _start                    ^ _end   ^ len(_data)

Invariant: while there is a current frame, the buffer is neither moved nor reused. The view of the frame
therefore stays valid and writable until `release` or `drop_frame`. Later bytes are received behind it.

Bounds: at most NORMAL_BYTES for a frame that is larger than `admit` allows; the connection calls it when
memory for the frame is available. For other frames the buffer is at most twice the received bytes
plus GRANT_BYTES, whatever size the peer claims. More is taken only from SpareMemory, which is limited for the
whole process. At most MAPPED_BYTES are copied at once for a frame that is received alone.
I/O: none.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Final

from tidelog.base.private_memory import private_mapping
from tidelog.broker.network.memory import SpareMemory
from tidelog.protocol.framing import SIZE_BYTES

API_KEY_BYTES: Final = 2
FIRST_BYTES: Final = 8 * 1024
NORMAL_BYTES: Final = 128 * 1024
GRANT_BYTES: Final = 64 * 1024
SPARE_FRAME_BYTES: Final = 4 * 1024 * 1024
READ_BYTES_MAX: Final = 256 * 1024
"""The bytes of one read: more would take longer than a slice if the memory is new."""
MAPPED_BYTES: Final = SPARE_FRAME_BYTES
"""A larger buffer is a memory mapping, which grows without a copy: copying 20 MB takes 20 ms."""

_unpack_size: Final = struct.Struct(">i").unpack_from
_unpack_api_key: Final = struct.Struct(">h").unpack_from
_NOTHING: Final = bytearray()


class InvalidFrameError(Exception):
    """A frame size is negative or larger than socket.request.max.bytes; the connection must be closed."""


class ReceiveBuffer:
    """The memory for received bytes, from which frames are read."""

    __slots__ = (
        "_admitted_bytes",
        "_data",
        "_end",
        "_frame_bytes_max",
        "_pinned",
        "_release_mapping",
        "_spare",
        "_spare_taken",
        "_start",
        "_view",
    )

    def __init__(
        self,
        frame_bytes_max: int,
        spare: SpareMemory,
        admitted_bytes: int = 2**31,
        release_mapping: Callable[[mmap.mmap], None] | None = None,
    ) -> None:
        """Create it without memory; `release_mapping` releases a mapping later, None releases it at once."""
        self._release_mapping = release_mapping
        self._frame_bytes_max = frame_bytes_max
        self._admitted_bytes = admitted_bytes
        """The size of the largest frame that is received completely and returned by `next_frame`."""
        self._spare = spare
        self._spare_taken = 0
        self._data: bytearray | mmap.mmap = _NOTHING
        self._view = memoryview(_NOTHING)
        self._start = 0
        self._end = 0
        self._pinned = False

    @property
    def capacity_bytes(self) -> int:
        """The size of the buffer in bytes."""
        return len(self._data)

    @property
    def is_empty(self) -> bool:
        """Whether all received bytes have been handled."""
        return self._start == self._end

    @property
    def is_full(self) -> bool:
        """Whether no byte can be received before frames are handled."""
        return self._end == len(self._data)

    def allow(self, frame_bytes_max: int) -> None:
        """Allow frames of up to `frame_bytes_max` bytes."""
        self._frame_bytes_max = frame_bytes_max

    def admit(self, frame_bytes: int) -> None:
        """Receive frames of up to `frame_bytes` bytes, for which memory is available."""
        self._admitted_bytes = frame_bytes

    def writable(self) -> memoryview:
        """Return memory for the next bytes; empty only if there is a current frame and the buffer is full."""
        if not self._pinned:
            self._make_room()
        end = self._end
        if len(self._view) - end > READ_BYTES_MAX:
            return self._view[end : end + READ_BYTES_MAX]
        return self._view[end:] if end else self._view

    def writable_at_once(self, bytes_max: int) -> memoryview:
        """Return at most `bytes_max` bytes of memory for the next bytes; new memory only if none is left."""
        end = self._end
        view = self.writable() if end == len(self._data) else self._view[end:]
        return view[:bytes_max]

    def on_received(self, count: int) -> None:
        """Accept `count` bytes that were written to the memory that `writable` returned."""
        self._end += count

    def frame_bytes(self) -> int | None:
        """Return the claimed size of the next frame with its 4 size bytes; None until these are received.

        Errors: InvalidFrameError.
        """
        if self._end - self._start < SIZE_BYTES:
            return None
        size: int = _unpack_size(self._data, self._start)[0]
        if 0 <= size <= self._frame_bytes_max:
            return SIZE_BYTES + size
        raise InvalidFrameError(f"frame of {size} bytes, allowed are 0 to {self._frame_bytes_max}")

    def next_frame(self) -> memoryview | None:
        """Make the next frame the current one and return it without its size; None until it is complete.

        Errors: InvalidFrameError.
        """
        start, end = self._start + SIZE_BYTES, self._end
        if start > end:
            return None
        size: int = _unpack_size(self._data, start - SIZE_BYTES)[0]
        if not 0 <= size <= self._frame_bytes_max:
            raise InvalidFrameError(f"frame of {size} bytes, allowed are 0 to {self._frame_bytes_max}")
        frame_end = start + size
        if frame_end > end or size > self._admitted_bytes:
            return None
        self._start = frame_end
        self._pinned = True
        return self._view[start:frame_end]

    def frame_to_admit(self) -> tuple[int, int] | None:
        """Return the size and API key of the next frame if it is not admitted, else None.

        Errors: InvalidFrameError.
        """
        if self._end == self._start:
            return None  # Nearly always: each turn ends with this question.
        size, key = self.frame_bytes(), self.next_api_key()
        if size is None or key is None or size - SIZE_BYTES <= self._admitted_bytes:
            return None
        return size, key

    def next_api_key(self) -> int | None:
        """Return the API key of the next frame; None until it is received."""
        key_at = self._start + SIZE_BYTES
        if self._end - key_at < API_KEY_BYTES:
            return None
        key: int = _unpack_api_key(self._data, key_at)[0]
        return key

    def has_frame(self) -> bool:
        """Return whether the next frame is complete, or has an invalid size and must be rejected."""
        try:
            size = self.frame_bytes()
        except InvalidFrameError:
            return True
        return size is not None and self._end - self._start >= size

    def missing_bytes(self) -> int:
        """Return how many bytes of the next frame are missing; 0 if its size is unknown or invalid."""
        received = self._end - self._start
        return max(0, self._claimed_bytes() - received) if received >= SIZE_BYTES else 0

    def release(self) -> None:
        """Release the current frame, whose request has its response; its memory may be used again."""
        self._pinned = False
        if len(self._data) > NORMAL_BYTES and not self._spare_taken:
            # The next frame may be smaller, and no request counts this memory any more.
            self._halve()

    def drop_frame(self) -> None:
        """Release the memory of the current frame, whose request has no response yet.

        The bytes that were received after it stay. Until `release` the buffer does not grow. A buffer of up
        to NORMAL_BYTES is kept, because every connection may have one.
        """
        assert self._pinned, "there is no frame to drop"
        if len(self._data) > NORMAL_BYTES:
            self._halve()
        elif self._start == self._end:
            self._start = self._end = 0

    def shrink(self) -> None:
        """Release the memory if it contains no bytes."""
        if not self._pinned and self._start == self._end:
            self._replace(0)

    def discard(self) -> None:
        """Drop all bytes, because the connection has ended; a current frame keeps its own memory alive."""
        self._start = self._end = 0
        self._replace(0)

    def _make_room(self) -> None:
        """Move, extend or replace the memory, so that the next frame fits as far as the bounds allow."""
        capacity = len(self._data)
        if self._start == self._end:
            filled = self._end == capacity
            self._start = self._end = 0
            if capacity > NORMAL_BYTES:
                if not self._spare_taken:
                    self._replace(NORMAL_BYTES)
            elif filled and capacity < NORMAL_BYTES:
                self._replace(max(FIRST_BYTES, 2 * capacity))
            return
        needed_bytes = self._claimed_bytes()
        if needed_bytes > NORMAL_BYTES and needed_bytes - SIZE_BYTES > self._admitted_bytes:
            needed_bytes = min(capacity, NORMAL_BYTES)
        if needed_bytes > capacity:
            room = self._room_for(needed_bytes)
            # Growth by less than a factor of two would copy the same bytes many times.
            if room >= min(needed_bytes, 2 * capacity) or (self._end == capacity and room > capacity):
                self._grow(room)
            elif self._end == capacity:
                self._move_to_front()
        elif self._end == capacity and capacity < NORMAL_BYTES and not self._spare_taken:
            self._replace(2 * capacity)
        elif self._start + needed_bytes > capacity or self._end == capacity:
            self._move_to_front()

    def _claimed_bytes(self) -> int:
        """Return the claimed size of the next frame; SIZE_BYTES if it is unknown or invalid."""
        try:
            return self.frame_bytes() or SIZE_BYTES
        except InvalidFrameError:
            return SIZE_BYTES

    def _room_for(self, frame_bytes: int) -> int:
        """Return the size that the buffer may have now for a frame of `frame_bytes` bytes."""
        granted = 2 * (self._end - self._start) + GRANT_BYTES
        if frame_bytes <= granted:
            return frame_bytes
        # Rounded up so that the next frame, of nearly the same size, fits as well.
        rounded = -(-frame_bytes // GRANT_BYTES) * GRANT_BYTES
        self._give_back_spare()
        if frame_bytes <= SPARE_FRAME_BYTES and self._spare.try_take(rounded):
            self._spare_taken = rounded
            return rounded
        return granted

    def _move_to_front(self) -> None:
        """Move the bytes that are not handled yet to the start of the buffer."""
        pending = self._end - self._start
        self._view[:pending] = self._view[self._start : self._end]
        self._start, self._end = 0, pending

    def _grow(self, capacity: int) -> None:
        """Extend the buffer if it is a mapping, else replace it."""
        data = self._data
        if isinstance(data, mmap.mmap) and not self._start:
            self._view.release()
            try:
                data.resize(capacity)
            except (BufferError, OSError, SystemError):
                # A view of an earlier frame still exists, or the system cannot extend mappings.
                pass
            self._view = memoryview(data)
        if len(data) < capacity:
            self._replace(capacity)

    def _replace(self, capacity: int) -> None:
        """Replace the buffer by a new one, and copy the pending bytes to it."""
        pending = self._end - self._start
        data = _allocated(capacity)
        view = memoryview(data)
        if pending:
            view[:pending] = self._view[self._start : self._end]
        if capacity != self._spare_taken:
            self._give_back_spare()
        if isinstance(self._data, mmap.mmap) and self._release_mapping is not None:
            self._view.release()
            self._release_mapping(self._data)
        self._data, self._view = data, view
        self._start, self._end = 0, pending

    def _halve(self) -> None:
        """Move to a smaller buffer if half the size is enough; otherwise the copy is not worth it."""
        needed_bytes = self._end - self._start + FIRST_BYTES
        if needed_bytes <= len(self._data) // 2:
            self._replace(needed_bytes)

    def _give_back_spare(self) -> None:
        """Return the memory that was taken from SpareMemory, if any."""
        if self._spare_taken:
            self._spare.give_back(self._spare_taken)
            self._spare_taken = 0


def _allocated(capacity: int) -> bytearray | mmap.mmap:
    """Return new memory of `capacity` bytes: a mapping if it is larger than MAPPED_BYTES."""
    if capacity > MAPPED_BYTES:
        return private_mapping(capacity)
    return bytearray(capacity) if capacity else _NOTHING
