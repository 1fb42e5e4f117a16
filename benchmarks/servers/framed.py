"""A minimal server of frames on the event loop of the broker, for reference servers."""

from __future__ import annotations

import asyncio
import signal
import struct
from collections.abc import Callable
from typing import Final, cast

import uvloop

FrameHandler = Callable[[memoryview], bytes]
"""Takes a frame without its size, and returns the response with its size."""

SIZE_BYTES: Final = 4
BUFFER_BYTES: Final = 4 * 1024 * 1024

_unpack_size: Final = struct.Struct(">i").unpack_from


class FramedConnection(asyncio.BufferedProtocol):
    """Reads into one buffer and responds to every complete frame in it; responses are sent together."""

    def __init__(self, handle: FrameHandler) -> None:
        self._handle = handle
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == BUFFER_BYTES:
            pending = self._end - self._start
            self._view[:pending] = self._view[self._start : self._end]
            self._start, self._end = 0, pending
        return self._view[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        self._end += nbytes
        responses: list[bytes] = []
        while self._end - self._start >= SIZE_BYTES:
            body = self._start + SIZE_BYTES
            end = body + _unpack_size(self._buffer, self._start)[0]
            if end > self._end:
                break
            responses.append(self._handle(self._view[body:end]))
            self._start = end
        if responses:
            assert self._transport is not None
            self._transport.write(b"".join(responses))


def serve(handle: FrameHandler, listens: Callable[[str, int], None] | None = None) -> None:
    """Call `listens`, print the address, and serve on a free port of 127.0.0.1 until SIGTERM."""
    uvloop.run(_serve(handle, listens))


async def _serve(handle: FrameHandler, listens: Callable[[str, int], None] | None) -> None:
    loop = asyncio.get_running_loop()
    asked_to_stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked_to_stop.set)
    server = await loop.create_server(lambda: FramedConnection(handle), "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    if listens is not None:
        listens(host, port)
    print(f"{host}:{port}", flush=True)
    await asked_to_stop.wait()
    server.close()
