"""A network server on loopback with a client that sends frames."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from tests.support.configs import listener_config, network_config
from tidelog.base.clock import Clock
from tidelog.broker.network.config import NetworkConfig
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import NetworkServer
from tidelog.security.tls.server import TlsServer


def frame(body: bytes) -> bytes:
    """Return a frame: the size of `body` and `body`."""
    return struct.pack(">i", len(body)) + body


def echo(request: Request) -> None:
    """Respond with the request."""
    request.respond(frame(bytes(request.frame)))


class Client:
    """One connection to the server under test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @property
    def address(self) -> str:
        """Return host:port as the server sees this client."""
        host, port = self.writer.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    async def send(self, data: bytes) -> None:
        """Send bytes unchanged."""
        self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> bytes:
        """Return the next response without its size."""
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def send_request(self, body: bytes) -> bytes:
        """Send one frame and return the response."""
        await self.send(frame(body))
        return await self.receive()

    async def is_closed(self) -> bool:
        """Wait for the server to close; return False if it sends something instead."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def reset(self) -> None:
        """Close with a TCP reset."""
        own = self.writer.get_extra_info("socket")
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        """Close the connection."""
        self.writer.transport.abort()


class RunningServer:
    """A started server with one listener."""

    def __init__(self, server: NetworkServer, port: int) -> None:
        self.server = server
        self.port = port
        self._clients: list[Client] = []

    async def connect(
        self,
        receive_buffer_bytes: int | None = None,
        limit: int = 2**16,
        tls: ssl.SSLContext | None = None,
    ) -> Client:
        """Return a new connection; a small `receive_buffer_bytes` makes the server wait for this reader."""
        own = socket.socket()
        own.setblocking(False)
        if receive_buffer_bytes is not None:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", self.port))
        host = None if tls is None else "localhost"
        client = Client(*await asyncio.open_connection(sock=own, limit=limit, ssl=tls, server_hostname=host))
        self._clients.append(client)
        return client

    def close_connections(self) -> None:
        """Close all clients."""
        for client in self._clients:
            client.close()


@asynccontextmanager
async def running_server(
    on_request: Callable[[Request], None] = echo,
    config: NetworkConfig | None = None,
    *,
    clock: Clock | None = None,
    max_connections: int | None = None,
    tls: TlsServer | None = None,
) -> AsyncIterator[RunningServer]:
    """Yield a server on a free port of 127.0.0.1; it is closed at the end."""
    server = NetworkServer(config or network_config(), clock=clock)
    listener = listener_config(name="PLAINTEXT", host="127.0.0.1", port=0, tls=tls)
    if max_connections is not None:
        listener = replace(listener, max_connections=max_connections)
    server.bind(listener, on_request)
    await server.start()
    served = RunningServer(server, server.port("PLAINTEXT"))
    try:
        yield served
    finally:
        served.close_connections()
        await server.close(timeout_s=0.2)
