"""Splits a byte stream into frames with 4-byte sizes, and does not copy large frames twice.

The reader provides the buffer for the next received bytes. Small frames are received into one reusable buffer
and are copied out of it. A frame that does not fit gets its own buffer, which the receiver may keep.
"""

from __future__ import annotations

from tidelog.protocol.errors import DecodeError

_SCRATCH_BYTES = 65_536
_LEAST_ROOM_BYTES = 16_384
_SIZE_BYTES = 4


class FrameReader:
    """Receives bytes and returns frames without their sizes.

    Bounds: a frame has 0..max_frame_bytes bytes; other sizes raise DecodeError.
    Invariant: bytes start..end of the scratch buffer are received and not yet split.
    """

    __slots__ = ("_end", "_filled", "_frame", "_max_frame_bytes", "_scratch", "_start", "_view")

    def __init__(self, max_frame_bytes: int) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._view = memoryview(self._scratch)
        self._start = 0
        self._end = 0
        self._frame: memoryview | None = None
        self._filled = 0

    def buffer(self) -> memoryview:
        """Return the buffer for the next received bytes; it is never empty."""
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._view[self._end :]

    def on_received(self, count: int) -> list[memoryview]:
        """Record that `count` bytes were written to `buffer()`; return the frames that are now complete."""
        if self._frame is not None:
            self._filled += count
            if self._filled < len(self._frame):
                return []
            frame, self._frame = self._frame, None
            return [frame]
        self._end += count
        return self._split()

    def _split(self) -> list[memoryview]:
        frames: list[memoryview] = []
        scratch, start, end = self._scratch, self._start, self._end
        while end - start >= _SIZE_BYTES:
            size = int.from_bytes(scratch[start : start + _SIZE_BYTES], "big", signed=True)
            if not 0 <= size <= self._max_frame_bytes:
                raise DecodeError(f"frame of {size} bytes; allowed are 0..{self._max_frame_bytes}")
            begin = start + _SIZE_BYTES
            if end - begin < size:
                if size > _SCRATCH_BYTES - _SIZE_BYTES or end == _SCRATCH_BYTES:
                    self._begin_large(size, begin, end)
                    return frames
                break
            frames.append(memoryview(scratch[begin : begin + size]))
            start = begin + size
        self._keep_rest(start, end)
        return frames

    def _begin_large(self, size: int, begin: int, end: int) -> None:
        """Move the received part of a large frame to its own buffer."""
        self._frame = memoryview(bytearray(size))
        self._filled = end - begin
        self._frame[: self._filled] = self._view[begin:end]
        self._start = self._end = 0

    def _keep_rest(self, start: int, end: int) -> None:
        if start == end:
            self._start = self._end = 0
        elif _SCRATCH_BYTES - end < _LEAST_ROOM_BYTES:
            rest = self._scratch[start:end]
            self._view[: len(rest)] = rest
            self._start, self._end = 0, len(rest)
        else:
            self._start, self._end = start, end
