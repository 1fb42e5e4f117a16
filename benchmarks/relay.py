"""A TCP relay between clients and one server, which can refuse connections or stop responding."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any, Final

HOST: Final = "127.0.0.1"
CHUNK_BYTES: Final = 1 << 18


class Relay:
    """Forwards bytes in a separate thread; every public method may be called from any thread."""

    def __init__(self, upstream_port: int) -> None:
        self._upstream_port = upstream_port
        self._port = 0
        self._is_silent = False
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.restore()

    @property
    def address(self) -> str:
        """Return `host:port` for clients; it does not change."""
        return f"{HOST}:{self._port}"

    def refuse(self) -> None:
        """Close all connections and refuse new ones."""
        self._run(self._refuse())

    def silence(self) -> None:
        """Accept requests, but do not forward them."""
        self._is_silent = True

    def restore(self) -> None:
        """Forward again; close the connections of the previous mode."""
        self._run(self._restore())

    def close(self) -> None:
        """Close all connections and end the thread."""
        self._run(self._refuse())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        self._abort_all()

    async def _restore(self) -> None:
        if self._is_silent:
            self._is_silent = False
            self._abort_all()
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, HOST, self._port)
            self._port = self._server.sockets[0].getsockname()[1]

    def _abort_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream_reader, upstream_writer = await asyncio.open_connection(HOST, self._upstream_port)
        self._writers |= {writer, upstream_writer}
        try:
            await asyncio.gather(
                self._forward(reader, upstream_writer), self._forward(upstream_reader, writer)
            )
        finally:
            self._writers -= {writer, upstream_writer}

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                if not self._is_silent:
                    writer.write(data)
                    await writer.drain()
        writer.close()


@contextmanager
def relay(upstream_port: int) -> Iterator[Relay]:
    """Run a relay during the `with` block."""
    running = Relay(upstream_port)
    try:
        yield running
    finally:
        running.close()
