"""One HTTP request and its response, for tokens and keys of an identity provider (shell).

A connection serves one request. Redirects are not followed: only the configured URL is requested. The time of
the whole exchange and the size of the response are limited.

Source: RFC 9110, RFC 9112.
"""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import Mapping
from dataclasses import field
from http.client import HTTPException, HTTPResponse
from ssl import SSLContext
from typing import Final, NamedTuple, cast
from urllib.parse import urlsplit

from tidelog.base.dataclass import dataclass
from tidelog.clients.config.environment import Environment

RESPONSE_BYTES_MAX: Final = 1024 * 1024
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


class HttpError(Exception):
    """An exchange that failed; the text has no contents of the request or the response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request; headers and body are hidden in the representation, because they contain secrets."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class HttpResponse(NamedTuple):
    """The status and the body of a response."""

    status: int
    body: bytes


class HttpTimeouts(NamedTuple):
    """`connect_ms` limits the connection with its TLS handshake, `read_ms` the time of the response."""

    connect_ms: int
    read_ms: int


async def exchange(
    environment: Environment, request: HttpRequest, context: SSLContext | None, timeouts: HttpTimeouts
) -> HttpResponse:
    """Send `request` and return the response. `context` is that of https. Errors: HttpError."""
    parts = urlsplit(request.url)
    host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
    receiver = _Receiver(asyncio.get_running_loop().create_future(), encode_request(request))
    stage = "connect"
    try:
        async with asyncio.timeout(timeouts.connect_ms / 1000):
            tls = context if parts.scheme == "https" else None
            await environment.connect(lambda: receiver, host, port, tls)
        stage = "response"
        async with asyncio.timeout(timeouts.read_ms / 1000):
            received = await receiver.received
            # In a thread: a response of many small chunks takes a second.
            return await asyncio.to_thread(parse_response, received, request.method)
    except TimeoutError:
        limit_ms = timeouts.connect_ms if stage == "connect" else timeouts.read_ms
        raise HttpError(f"no {stage} within {limit_ms} ms") from None
    except (OSError, UnicodeError) as error:
        # UnicodeError: a label of the host name is empty, or longer than 63 characters.
        raise HttpError(f"{type(error).__name__}: {error}") from None
    finally:
        receiver.close()


def encode_request(request: HttpRequest) -> bytes:
    """Return the bytes of a request."""
    parts = urlsplit(request.url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = {"Host": parts.netloc, "Connection": "close", "Accept": "application/json", **request.headers}
    if request.body or request.method == "POST":
        headers["Content-Length"] = str(len(request.body))
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
    assert all(line.isascii() and line.isprintable() for line in lines), "a header has a line break"
    return "\r\n".join([*lines, "", ""]).encode() + request.body


def parse_response(received: bytes, method: str = "GET") -> HttpResponse:
    """Return the response in all bytes that a server has sent. Errors: HttpError."""
    response = HTTPResponse(cast("socket.socket", _BytesSocket(received)), method=method)
    try:
        response.begin()
        body = response.read()
    except (HTTPException, ValueError, OSError) as error:
        raise HttpError(f"no complete HTTP response ({type(error).__name__})") from None
    if 300 <= response.status < 400:
        raise HttpError(f"HTTP status {response.status}; redirects are not followed")
    return HttpResponse(response.status, body)


class _BytesSocket:
    """A socket of the standard library's parser, which only opens it as a file."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, mode: str) -> io.BytesIO:
        """Return the received bytes as a file."""
        return io.BytesIO(self._received)


class _Receiver(asyncio.Protocol):
    """Sends a request and collects the response until the server closes the connection."""

    def __init__(self, received: asyncio.Future[bytes], request: bytes) -> None:
        self.received = received
        self._request = request
        self._parts: list[bytes] = []
        self._size_bytes = 0
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._parts.append(data)
        self._size_bytes += len(data)
        if self._size_bytes > RESPONSE_BYTES_MAX:
            self._fail(HttpError(f"the response has more than {RESPONSE_BYTES_MAX} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        # Some servers close TLS connections without a notice. The parser detects incomplete responses.
        if not self.received.done():
            self.received.set_result(b"".join(self._parts))

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()
        self.received.cancel()

    def _fail(self, error: HttpError) -> None:
        if not self.received.done():
            self.received.set_exception(error)
        self.close()
