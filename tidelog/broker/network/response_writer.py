"""Writes responses to the socket: small ones together in one write, large file slices with sendfile.

A response is sent in one of two ways, and never in both at a time:

    through the transport   bytes, and slices under SENDFILE_BYTES, which are read; answers of one
                            turn are joined. Over the transport's high-water mark the writer is blocked.
    past the transport      as soon as an answer has a large slice: the transport is drained, then
                            everything up to the end of the answer goes to its socket directly.
                            uvloop has no loop.sendfile, and neither loop watches a descriptor that
                            a transport owns; that is the SocketWatcher's work.

With TLS every byte goes through the transport, and slices are read piece by piece as it drains.

Bounds: unsent bytes are at most one answer plus the high-water mark; slices wait in their files.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from tidelog.broker.network.kept_files import KeptFiles
from tidelog.broker.network.request import Response
from tidelog.broker.network.socket_watcher import WRITABLE, SocketWatcher
from tidelog.storage.disk.files import File
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.segment.file_slice import FileSlice

SENDFILE_BYTES: Final = 64 * 1024
HIGH_WATER_BYTES: Final = 256 * 1024
JOIN_BYTES: Final = 128 * 1024
# How much one connection may send before the loop serves others.
TURN_BYTES: Final = 2 * 1024 * 1024
READ_BYTES: Final = 256 * 1024


class ShortFileError(OSError):
    """A file ended before the slice that was promised from it; the answer cannot be completed."""


class _SlicePart:
    """A file slice that is being sent.

    While it waits, a duplicate descriptor keeps its bytes readable. A file that is opened on demand has no
    descriptor meanwhile: it is opened again, which fails if it has been removed.
    """

    __slots__ = ("_kept", "_opened", "left", "position", "source")

    def __init__(self, source: FileSlice) -> None:
        self.source = source
        self.position = source.position
        self.left = source.length
        self._kept = -1
        self._opened: File | None = None

    def descriptor(self) -> int:
        """Return a descriptor for use in this turn of the loop."""
        if self._kept >= 0:
            return self._kept
        # Held here, as another thread may take it out of the pool.
        self._opened = self.source.held()
        return self._opened.fileno()

    def keep(self, files: KeptFiles) -> None:
        """Keep the file, as its segment may be closed while this waits."""
        self._opened = None
        self.source.release()
        if self._kept < 0 and not isinstance(self.source.file, OnDemandFile):
            self._kept = files.keep(self.source.file)

    def advance(self, sent: int) -> bool:
        """Count `sent` bytes; return whether the whole slice has been sent."""
        if sent == 0:
            raise ShortFileError(
                f"{self.source.file.path} ends at {self.position}, "
                f"promised were {self.source.length} bytes from {self.source.position}"
            )
        self.position += sent
        self.left -= sent
        return self.left == 0

    def close(self, files: KeptFiles) -> None:
        self._opened = None
        if self._kept >= 0:
            files.release(self.source.file)
            self._kept = -1


class ResponseWriter:
    """The sending half of one connection.

    `blocked` says that no further request should be handled; `on_ready` is called when that ends,
    `on_broken` with the reason when sending failed. Neither is called from within `write`
    or `flush`: those raise OSError instead.
    """

    __slots__ = (
        "_corked",
        "_corked_bytes",
        "_draining",
        "_files",
        "_on_broken",
        "_on_ready",
        "_paused",
        "_queue",
        "_socket",
        "_tls",
        "_transport",
        "_watcher",
        "_watching",
        "blocked",
        "sent_bytes",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        accepted: socket.socket,
        watcher: SocketWatcher,
        files: KeptFiles,
        on_ready: Callable[[], None],
        on_broken: Callable[[OSError], None],
    ) -> None:
        self._transport = transport
        self._socket = accepted
        """The transport's socket, which the transport closes."""
        self._watcher = watcher
        self._files = files
        self._on_ready = on_ready
        self._on_broken = on_broken
        self._tls = transport.get_extra_info("ssl_object") is not None
        self._corked: list[bytes | bytearray | memoryview] = []
        self._corked_bytes = 0
        self._queue: deque[memoryview | _SlicePart] = deque()
        self._watching = False
        self._draining = False
        self._paused = False
        self.blocked = False
        self.sent_bytes = 0
        transport.set_write_buffer_limits(HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4)

    @property
    def unsent_bytes(self) -> int:
        """What the transport and the queue still hold; shrinks whenever the peer reads."""
        queued = sum(part.left if isinstance(part, _SlicePart) else len(part) for part in self._queue)
        return self._transport.get_write_buffer_size() + queued

    @property
    def memory_bytes(self) -> int:
        """The unsent bytes that are in memory."""
        queued = sum(len(part) for part in self._queue if not isinstance(part, _SlicePart))
        return self._transport.get_write_buffer_size() + self._corked_bytes + queued

    @property
    def is_idle(self) -> bool:
        """Whether everything has at least reached the transport."""
        return not self._queue and not self._corked

    def write(self, response: Response) -> None:
        """Accept a response, which `flush` sends at the latest. Errors: OSError; it is then incomplete."""
        if response is None:
            return
        if isinstance(response, bytes):
            self._cork(response)
            return
        for part in response:
            if not isinstance(part, FileSlice):
                self._put(part)
            elif part.length:
                if part.length >= SENDFILE_BYTES and _has_descriptor(part):
                    self._put_slice(part)
                else:
                    self._put(_read(part))
        if self._queue and not self.blocked:
            self._start_queue()

    def flush(self) -> None:
        """Write the collected bytes to the transport."""
        corked = self._corked
        if not corked:
            return
        if len(corked) == 1:
            self._transport.write(corked[0])
        elif self._corked_bytes <= JOIN_BYTES:
            self._transport.write(b"".join(corked))
        else:
            # Not writelines: that of asyncio in Python 3.12 and 3.13 never pauses (CVE-2024-12254).
            for piece in corked:
                self._transport.write(piece)
        corked.clear()
        self._corked_bytes = 0

    def pause(self) -> None:
        """Stop writing: the transport is above its high-water mark."""
        self._paused = self.blocked = True

    def resume(self) -> None:
        """Continue writing: the transport is below its low-water mark."""
        self._paused = False
        if self._draining:
            self._draining = False
            self._transport.set_write_buffer_limits(HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4)
        if self._queue:
            self._pump()
        elif self.blocked:
            self.blocked = False
            self._on_ready()

    def close(self) -> None:
        """Release descriptors and drop unsent bytes."""
        self._unwatch()
        for part in self._queue:
            if isinstance(part, _SlicePart):
                part.close(self._files)
        self._queue.clear()
        self._corked.clear()
        self.blocked = True

    def _put(self, data: bytes | bytearray | memoryview) -> None:
        if self._queue:
            self.sent_bytes += len(data)
            self._queue.append(memoryview(data))
        else:
            self._cork(data)

    def _cork(self, data: bytes | bytearray | memoryview) -> None:
        size = len(data)
        self.sent_bytes += size
        self._corked.append(data)
        self._corked_bytes += size
        if self._corked_bytes > JOIN_BYTES:
            self.flush()

    def _put_slice(self, part: FileSlice) -> None:
        """Queue a large slice, behind what is corked: from here on the answer goes past the transport."""
        self.sent_bytes += part.length
        if self._corked and not self._queue and not self._tls:
            self._queue.append(memoryview(b"".join(self._corked)))
            self._corked.clear()
            self._corked_bytes = 0
        self._queue.append(_SlicePart(part))

    def _start_queue(self) -> None:
        self.blocked = True
        if self._tls:
            self.flush()
        elif self._transport.get_write_buffer_size():
            self._draining = True
            self._keep_files()
            # With a limit of 0 the transport calls pause_writing at once, and resume_writing when empty.
            self._transport.set_write_buffer_limits(0)
            return
        self._send_queue()
        self.blocked = bool(self._queue) or self._paused

    def _pump(self, events: int = 0) -> None:
        """Continue sending, and report the end; called when there is room, or the socket is broken."""
        try:
            self._send_queue()
        except OSError as error:
            self._on_broken(error)
            return
        if not self._queue and not self._paused:
            self.blocked = False
            self._on_ready()

    def _send_queue(self) -> None:
        if self._tls:
            self._send_through_transport()
            return
        try:
            self._send_past_transport()
        except (BlockingIOError, InterruptedError):
            pass
        if not self._queue:
            self._unwatch()
            return
        self._keep_files()
        if not self._watching:
            self._watcher.watch(self._socket.fileno(), WRITABLE, self._pump)
            self._watching = True

    def _send_past_transport(self) -> None:
        queue, budget, descriptor = self._queue, TURN_BYTES, self._socket.fileno()
        while queue and budget > 0:
            part = queue[0]
            if isinstance(part, _SlicePart):
                sent = os.sendfile(descriptor, part.descriptor(), part.position, min(part.left, budget))
                if part.advance(sent):
                    queue.popleft()
                    part.close(self._files)
            else:
                sent = self._socket.send(part, socket.MSG_MORE if len(queue) > 1 else 0)
                if sent == len(part):
                    queue.popleft()
                else:
                    queue[0] = part[sent:]
            budget -= sent

    def _send_through_transport(self) -> None:
        queue = self._queue
        while queue and not self._paused:
            part = queue[0]
            if isinstance(part, _SlicePart):
                data = os.pread(part.descriptor(), min(part.left, READ_BYTES), part.position)
                if part.advance(len(data)):
                    queue.popleft()
                    part.close(self._files)
                self._transport.write(data)
            else:
                queue.popleft()
                self._transport.write(part)
        self._keep_files()

    def _keep_files(self) -> None:
        for part in self._queue:
            if isinstance(part, _SlicePart):
                part.keep(self._files)

    def _unwatch(self) -> None:
        if self._watching:
            self._watcher.unwatch(self._socket.fileno(), WRITABLE)
            self._watching = False


def _has_descriptor(part: FileSlice) -> bool:
    try:
        return part.file.fileno() >= 0
    except io.UnsupportedOperation:
        return False


def _read(part: FileSlice) -> bytes:
    data = part.read()
    if len(data) != part.length:
        raise ShortFileError(
            f"{part.file.path} has {len(data)} bytes from {part.position}, promised were {part.length}"
        )
    return data
