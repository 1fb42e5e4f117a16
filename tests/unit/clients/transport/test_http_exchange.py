"""HTTP exchanges with an identity provider: limits of time and size, no redirects, no secrets in errors."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.security.identity_provider import running_provider
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport import http_exchange
from tidelog.clients.transport.http_exchange import (
    RESPONSE_BYTES_MAX,
    HttpError,
    HttpRequest,
    HttpResponse,
    HttpTimeouts,
    encode_request,
    exchange,
    parse_response,
)
from tidelog.security.certificate_authority import Authority

TIMEOUTS = HttpTimeouts(connect_ms=10_000, read_ms=10_000)
SHORT = HttpTimeouts(connect_ms=200, read_ms=200)
SECRET = "canary-31"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def run_server(serve: Serve) -> AsyncIterator[str]:
    """Run a server that calls `serve` for each connection; yield its address."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/path"
    finally:
        server.close()


async def send(
    url: str, timeouts: HttpTimeouts = TIMEOUTS, context: ssl.SSLContext | None = None
) -> HttpResponse:
    request = HttpRequest(url=url, method="POST", headers={"Authorization": SECRET}, body=SECRET.encode())
    assert SECRET not in repr(request)
    return await exchange(SystemEnvironment(), request, context, timeouts)


async def failure(url: str, timeouts: HttpTimeouts = TIMEOUTS, context: ssl.SSLContext | None = None) -> str:
    with pytest.raises(HttpError) as raised:
        await send(url, timeouts, context)
    assert SECRET not in str(raised.value) and raised.value.__cause__ is None
    return str(raised.value)


def test_the_request_has_length_and_host() -> None:
    request = HttpRequest(url="http://id.example:81/a?b=c", method="POST", headers={"X": "y"}, body=b"z=1")
    assert encode_request(request) == (
        b"POST /a?b=c HTTP/1.1\r\nHost: id.example:81\r\nConnection: close\r\nAccept: application/json\r\n"
        b"X: y\r\nContent-Length: 3\r\n\r\nz=1"
    )
    assert encode_request(HttpRequest(url="https://id.example")).startswith(b"GET / HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("received", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n", b"ab"),
        (b"HTTP/1.0 200 OK\r\n\r\nab", b"ab"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", b""),
    ],
)
def test_complete_responses_have_status_and_body(received: bytes, body: bytes) -> None:
    assert parse_response(received) == (200, body)


@pytest.mark.parametrize(
    "received",
    [
        b"",
        b"garbage",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 canary-31 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000 + b"\r\n\r\n",
    ],
)
def test_incomplete_responses_and_garbage_are_errors_without_secrets(received: bytes) -> None:
    with pytest.raises(HttpError, match="no complete HTTP response") as raised:
        parse_response(received)
    assert SECRET not in str(raised.value)


async def test_a_server_over_tls_must_be_trusted(tmp_path: Path) -> None:
    authority = Authority.create()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(authority.issue("provider").write_pem(tmp_path / "provider.pem"))
    trusting = ssl.create_default_context(cadata=authority.pem())
    with running_provider(server) as provider:
        assert (await send(provider.url + "/keys", context=trusting)).status == 200
        assert "certificate" in await failure(provider.url, context=ssl.create_default_context())


async def test_a_redirect_is_not_followed() -> None:
    with running_provider() as provider:
        provider.response_to = lambda path: (302, f"{provider.url}/canary-31".encode())
        assert await failure(provider.url + "/keys") == "HTTP status 302; redirects are not followed"
        assert [path for path, _ in provider.requests] == ["/keys"]


async def test_a_server_that_sends_slowly_is_abandoned() -> None:
    async def send_slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with run_server(send_slowly) as url:
        assert await failure(url, SHORT) == "no response within 200 ms"


async def test_a_response_without_end_is_abandoned() -> None:
    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with run_server(flood) as url:
        assert await failure(url) == f"the response has more than {RESPONSE_BYTES_MAX} bytes"


async def test_a_closed_port_is_reported() -> None:
    async with run_server(lambda *_: asyncio.sleep(0)) as url:
        pass
    assert "Connect" in await failure(url)


async def test_a_host_name_that_is_too_long_is_reported() -> None:
    with pytest.raises(HttpError, match=r"Unicode(Encode)?Error"):
        await send(f"http://{'a' * 64}.example/path")


async def test_a_response_is_parsed_outside_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def parse(received: bytes, method: str) -> HttpResponse:
        threads.append(threading.get_ident())
        return parse_response(received, method)

    async def respond(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n1\r\ny\r\n0\r\n\r\n")

    monkeypatch.setattr(http_exchange, "parse_response", parse)
    async with run_server(respond) as url:
        assert await send(url) == HttpResponse(200, b"xy")
    assert len(threads) == 1 and threads[0] != threading.get_ident()
