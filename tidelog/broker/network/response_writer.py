"""Writes responses to the socket: small ones together in one write, large file slices with sendfile.

A response is sent in one of two ways, never in both at a time:

    through the transport    bytes and small slices. Slices under SENDFILE_BYTES are read into memory, and the
                             responses of one turn are joined. Above the transport's high-water mark the
                             writer is blocked.
    bypassing the transport  a response with a large slice, or with a part of more than COPY_BYTES, which the
                             transport would copy at once. The transport is drained. Then everything up to
                             the end of the response is sent to its socket directly. uvloop has no
                             loop.sendfile, and neither loop watches a descriptor that a transport owns.
                             Therefore SocketWatcher watches it.

With TLS all bytes are sent through the transport, and slices are read in pieces as it drains. At most
TURN_BYTES are encrypted in a turn of the loop; the response continues when the socket accepts bytes.

Bounds: unsent bytes are at most one response plus the high-water mark; unsent slices stay in their files.
"""

from __future__ import annotations

import asyncio
import io
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from tidelog.broker.network.request import Response
from tidelog.broker.network.shared_descriptors import SharedDescriptors
from tidelog.broker.network.socket_watcher import WRITABLE, SocketWatcher
from tidelog.storage.disk.files import File
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.segment.file_slice import FileSlice

SENDFILE_BYTES: Final = 64 * 1024
HIGH_WATER_BYTES: Final = 256 * 1024
JOIN_BYTES: Final = 128 * 1024
TURN_BYTES: Final = 2 * 1024 * 1024
"""The bytes that one connection may send before the loop serves other connections."""
COPY_BYTES: Final = 1024 * 1024
"""A larger part of a response bypasses the transport, which would copy it at once."""
COPY_COST: Final = 8
"""A byte in memory counts as so many bytes of a file: the kernel may need new memory for its copy, and then
takes 3 ms for 1 MiB."""
READ_BYTES: Final = 256 * 1024


class ShortFileError(OSError):
    """A file is shorter than the end of a slice; the response cannot be completed."""


class _SlicePart:
    """A file slice that is being sent.

    While it waits, a duplicate descriptor keeps its bytes readable. A file that is opened on demand has no
    descriptor during this time. It is opened again later, which fails if the file has been removed.
    """

    __slots__ = ("_duplicate", "_open_file", "position", "remaining_bytes", "source")

    def __init__(self, source: FileSlice) -> None:
        self.source = source
        self.position = source.position
        self.remaining_bytes = source.length
        self._duplicate = -1
        self._open_file: File | None = None

    def descriptor(self) -> int:
        """Return a descriptor for use in this turn of the loop."""
        if self._duplicate >= 0:
            return self._duplicate
        # The reference prevents that another thread removes the file from the pool.
        self._open_file = self.source.hold()
        return self._open_file.fileno()

    def keep_readable(self, descriptors: SharedDescriptors) -> None:
        """Keep the file readable, because its segment may be closed while the slice waits."""
        self._open_file = None
        self.source.release()
        if self._duplicate < 0 and not isinstance(self.source.file, OnDemandFile):
            self._duplicate = descriptors.acquire(self.source.file)

    def advance(self, sent: int) -> bool:
        """Count `sent` bytes; return whether the whole slice has been sent."""
        if sent == 0:
            raise ShortFileError(
                f"{self.source.file.path} ends at position {self.position}; "
                f"the response needs {self.source.length} bytes from position {self.source.position}"
            )
        self.position += sent
        self.remaining_bytes -= sent
        return self.remaining_bytes == 0

    def close(self, descriptors: SharedDescriptors) -> None:
        """Release the file: the slice has been sent, or the connection has ended."""
        self._open_file = None
        if self._duplicate >= 0:
            descriptors.release(self.source.file)
            self._duplicate = -1


class ResponseWriter:
    """The sending half of one connection.

    While `is_blocked`, the connection must handle no further request. `on_ready` is called when this ends,
    and `on_broken` with the reason if sending fails. Neither is called from within `write` or `flush`, which
    raise OSError instead.
    """

    __slots__ = (
        "_buffer",
        "_buffered_bytes",
        "_descriptors",
        "_is_draining",
        "_is_paused",
        "_is_watching",
        "_on_broken",
        "_on_ready",
        "_queue",
        "_release",
        "_socket",
        "_transport",
        "_uses_tls",
        "_watcher",
        "is_blocked",
        "sent_bytes",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        client_socket: socket.socket,
        watcher: SocketWatcher,
        descriptors: SharedDescriptors,
        on_ready: Callable[[], None],
        on_broken: Callable[[OSError], None],
        release: Callable[[memoryview], None],
    ) -> None:
        """`release` releases memory in later iterations of the loop."""
        self._transport = transport
        self._socket = client_socket
        """The transport's socket, which the transport closes."""
        self._watcher = watcher
        self._descriptors = descriptors
        self._on_ready = on_ready
        self._on_broken = on_broken
        self._release = release
        self._uses_tls = transport.get_extra_info("ssl_object") is not None
        self._buffer: list[bytes | bytearray | memoryview] = []
        self._buffered_bytes = 0
        self._queue: deque[memoryview | _SlicePart] = deque()
        self._is_watching = False
        self._is_draining = False
        self._is_paused = False
        self.is_blocked = False
        self.sent_bytes = 0
        transport.set_write_buffer_limits(HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4)

    @property
    def unsent_bytes(self) -> int:
        """The bytes in the transport and in the queue; decreases whenever the peer reads."""
        queued = sum(
            part.remaining_bytes if isinstance(part, _SlicePart) else len(part) for part in self._queue
        )
        return self._transport.get_write_buffer_size() + queued

    @property
    def memory_bytes(self) -> int:
        """The unsent bytes that are in memory."""
        queued = sum(len(part) for part in self._queue if not isinstance(part, _SlicePart))
        return self._transport.get_write_buffer_size() + self._buffered_bytes + queued

    @property
    def is_idle(self) -> bool:
        """Whether all bytes were passed to the transport or sent."""
        return not self._queue and not self._buffer

    def write(self, response: Response) -> None:
        """Accept a response; `flush` sends what is left. Errors: OSError; the response is then incomplete."""
        if response is None:
            return
        if isinstance(response, bytes):
            self._add_to_buffer(response)
            return
        for part in response:
            if not isinstance(part, FileSlice):
                self._enqueue(part)
            elif part.length:
                if part.length >= SENDFILE_BYTES and _has_descriptor(part):
                    self._enqueue_slice(part)
                else:
                    self._enqueue(_read(part))
        if self._queue and not self.is_blocked:
            self._start_queue()

    def flush(self) -> None:
        """Write the collected bytes to the transport."""
        buffer = self._buffer
        if not buffer:
            return
        if len(buffer) == 1:
            self._transport.write(buffer[0])
        elif self._buffered_bytes <= JOIN_BYTES:
            self._transport.write(b"".join(buffer))
        else:
            # Not writelines: that of asyncio in Python 3.12 and 3.13 never pauses (CVE-2024-12254).
            for piece in buffer:
                self._transport.write(piece)
        buffer.clear()
        self._buffered_bytes = 0

    def pause(self) -> None:
        """Stop writing: the transport is above its high-water mark."""
        self._is_paused = self.is_blocked = True

    def resume(self) -> None:
        """Continue writing: the transport is below its low-water mark."""
        self._is_paused = False
        if self._is_draining:
            self._is_draining = False
            self._transport.set_write_buffer_limits(HIGH_WATER_BYTES, HIGH_WATER_BYTES // 4)
        if self._queue:
            self._pump()
        elif self.is_blocked:
            self.is_blocked = False
            self._on_ready()

    def close(self) -> None:
        """Release descriptors and drop unsent bytes."""
        self._unwatch()
        for part in self._queue:
            if isinstance(part, _SlicePart):
                part.close(self._descriptors)
            elif len(part) > COPY_BYTES:
                # The kernel takes 70 us for 1 MiB, and many connections may end at the same time.
                self._release(part)
        self._queue.clear()
        self._buffer.clear()
        self.is_blocked = True

    def _enqueue(self, data: bytes | bytearray | memoryview) -> None:
        if self._queue or len(data) > COPY_BYTES:
            self.sent_bytes += len(data)
            self._begin_queue()
            self._queue.append(memoryview(data))
        else:
            self._add_to_buffer(data)

    def _add_to_buffer(self, data: bytes | bytearray | memoryview) -> None:
        size = len(data)
        self.sent_bytes += size
        self._buffer.append(data)
        self._buffered_bytes += size
        if self._buffered_bytes > JOIN_BYTES:
            self.flush()

    def _enqueue_slice(self, part: FileSlice) -> None:
        """Queue a large slice behind the buffered bytes; without TLS, the response bypasses the transport."""
        self.sent_bytes += part.length
        self._begin_queue()
        self._queue.append(_SlicePart(part))

    def _begin_queue(self) -> None:
        """Queue the buffered bytes before a large part; with TLS they are in the transport before it."""
        if self._buffer and not self._queue and not self._uses_tls:
            self._queue.append(memoryview(b"".join(self._buffer)))
            self._buffer.clear()
            self._buffered_bytes = 0

    def _start_queue(self) -> None:
        """Send the queue now, or when the transport has sent the bytes of earlier responses."""
        self.is_blocked = True
        if self._uses_tls:
            self.flush()
        elif self._transport.get_write_buffer_size():
            self._is_draining = True
            self._keep_slices_readable()
            # With a limit of 0 the transport calls pause_writing at once, and resume_writing when empty.
            self._transport.set_write_buffer_limits(0)
            return
        self._send_queue()
        self.is_blocked = bool(self._queue) or self._is_paused

    def _pump(self, events: int = 0) -> None:
        """Continue sending, and report the end; called when there is room, or the socket is broken."""
        try:
            self._send_queue()
        except OSError as error:
            self._on_broken(error)
            return
        if not self._queue and not self._is_paused:
            self.is_blocked = False
            self._on_ready()

    def _send_queue(self) -> None:
        """Send as much of the queue as the socket accepts and one turn allows. Errors: OSError."""
        if self._uses_tls:
            self._send_through_transport()
            return
        try:
            self._send_bypassing_transport()
        except (BlockingIOError, InterruptedError):
            pass
        if not self._queue:
            self._unwatch()
            return
        self._keep_slices_readable()
        self._watch()

    def _send_bypassing_transport(self) -> None:
        queue, budget, descriptor = self._queue, TURN_BYTES, self._socket.fileno()
        while queue and budget > 0:
            part = queue[0]
            if isinstance(part, _SlicePart):
                sent = os.sendfile(
                    descriptor, part.descriptor(), part.position, min(part.remaining_bytes, budget)
                )
                if part.advance(sent):
                    queue.popleft()
                    part.close(self._descriptors)
                budget -= sent
            else:
                piece = part[: -(-budget // COPY_COST)]
                is_last = len(queue) == 1 and len(piece) == len(part)
                sent = self._socket.send(piece, 0 if is_last else socket.MSG_MORE)
                if sent == len(part):
                    queue.popleft()
                else:
                    queue[0] = part[sent:]
                budget -= sent * COPY_COST

    def _send_through_transport(self) -> None:
        queue, budget = self._queue, TURN_BYTES
        while queue and budget > 0 and not self._is_paused:
            part = queue[0]
            if isinstance(part, _SlicePart):
                data = os.pread(part.descriptor(), min(part.remaining_bytes, READ_BYTES), part.position)
                if part.advance(len(data)):
                    queue.popleft()
                    part.close(self._descriptors)
                self._transport.write(data)
                budget -= len(data)
            else:
                piece = part[:READ_BYTES]
                if len(piece) == len(part):
                    queue.popleft()
                else:
                    queue[0] = part[len(piece) :]
                self._transport.write(piece)
                budget -= len(piece)
        self._keep_slices_readable()
        if queue and not self._is_paused:
            self._watch()
        else:
            self._unwatch()

    def _keep_slices_readable(self) -> None:
        for part in self._queue:
            if isinstance(part, _SlicePart):
                part.keep_readable(self._descriptors)

    def _watch(self) -> None:
        if not self._is_watching:
            self._watcher.watch(self._socket.fileno(), WRITABLE, self._pump)
            self._is_watching = True

    def _unwatch(self) -> None:
        if self._is_watching:
            self._watcher.unwatch(self._socket.fileno(), WRITABLE)
            self._is_watching = False


def _has_descriptor(part: FileSlice) -> bool:
    """Return whether the slice is in a file of the operating system, as sendfile requires."""
    try:
        return part.file.fileno() >= 0
    except io.UnsupportedOperation:
        return False


def _read(part: FileSlice) -> bytes:
    """Return all bytes of a slice. Errors: ShortFileError."""
    data = part.read()
    if len(data) != part.length:
        raise ShortFileError(
            f"{part.file.path} has {len(data)} bytes from position {part.position}; "
            f"the response needs {part.length}"
        )
    return data
