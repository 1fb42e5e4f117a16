"""Listeners with TLS: requests, large responses, principals, and handshakes that are slow or wrong."""

from __future__ import annotations

import asyncio
import datetime
import logging
import re
import socket
import ssl
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.python_calls import count_python_calls
from tests.support.loops.yields import loop_iterations
from tests.support.network.loopback_server import Client, RunningServer, frame, running_server
from tests.support.security.tls_listener import AUTHORITY, context_that_trusts, tls_server
from tests.support.waiting import eventually
from tidelog.base.clock import SYSTEM_CLOCK
from tidelog.base.log_limit import LINES_MAX
from tidelog.broker.logs.descriptor_budget import raise_open_file_limit
from tidelog.broker.network import tls_handshakes
from tidelog.broker.network.request import Request
from tidelog.security.certificate_authority import Authority
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.segment.file_slice import FileSlice


def respond_with_principal(request: Request) -> None:
    request.respond(frame(request.principal.encode()))


def failures(served: RunningServer) -> int:
    return served.server.counters.authentications["PLAINTEXT"].failed


@on_both_loops
async def test_requests_and_responses_are_encrypted() -> None:
    async with running_server(tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        for size in (0, 1, 100_000, 3_000_000):
            body = bytes(range(256)) * (size // 256)
            assert await client.send_request(body) == body


@on_both_loops
async def test_pipelined_requests_get_their_responses_in_order() -> None:
    async with running_server(tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        await client.send(b"".join(frame(b"%d" % number) for number in range(500)))
        assert [await client.receive() for _ in range(500)] == [b"%d" % number for number in range(500)]


@on_both_loops
async def test_large_slices_of_files_are_sent(tmp_path: Path) -> None:
    data = bytes(range(251)) * 40_000
    path = tmp_path / "slice"
    path.write_bytes(data)
    with closing(OsFileSystem().open(str(path), create=False)) as file:

        def respond(request: Request) -> None:
            size = len(data).to_bytes(4, "big")
            request.respond([size, FileSlice(file, 0, len(data))])

        async with running_server(respond, tls=tls_server()) as served:
            client = await served.connect(tls=context_that_trusts())
            for _ in range(3):
                assert await client.send_request(b"") == data


@on_both_loops
async def test_without_client_authentication_the_principal_is_anonymous() -> None:
    async with running_server(respond_with_principal, tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts(AUTHORITY.issue("alice")))
        assert await client.send_request(b"") == b"User:ANONYMOUS"


@pytest.mark.parametrize(
    "rules, principal",
    [("DEFAULT", b"User:CN=alice"), ("RULE:^CN=(.*)$/$1/U,DEFAULT", b"User:ALICE")],
)
@on_both_loops
async def test_the_principal_is_that_of_the_certificate(rules: str, principal: bytes) -> None:
    tls = tls_server(rules, ssl_client_auth="required")
    async with running_server(respond_with_principal, tls=tls) as served:
        client = await served.connect(tls=context_that_trusts(AUTHORITY.issue("alice")))
        assert await client.send_request(b"") == principal


@on_both_loops
async def test_a_requested_certificate_may_be_missing() -> None:
    async with running_server(respond_with_principal, tls=tls_server(ssl_client_auth="requested")) as served:
        client = await served.connect(tls=context_that_trusts())
        assert await client.send_request(b"") == b"User:ANONYMOUS"


@on_both_loops
async def test_a_certificate_that_no_rule_matches_is_refused() -> None:
    tls = tls_server("RULE:^CN=b.*$/x/", ssl_client_auth="required")
    async with running_server(respond_with_principal, tls=tls) as served:
        client = await served.connect(tls=context_that_trusts(AUTHORITY.issue("alice")))
        assert await is_refused(client)
        assert failures(served) == 1 and served.server.quota.count == 0


@pytest.mark.parametrize("kind", ["missing", "untrusted", "expired"])
@on_both_loops
async def test_an_untrusted_client_certificate_is_refused(kind: str) -> None:
    identity = {
        "missing": None,
        "untrusted": Authority.create("Another CA").issue("alice"),
        "expired": AUTHORITY.issue("alice", lifetime=-datetime.timedelta(hours=1)),
    }[kind]
    async with running_server(respond_with_principal, tls=tls_server(ssl_client_auth="required")) as served:
        # With TLS 1.3 the client is notified of the refusal only after its own part of the handshake.
        try:
            client = await served.connect(tls=context_that_trusts(identity))
        except (ssl.SSLError, ConnectionError):
            pass
        else:
            assert await is_refused(client)
        await eventually(lambda: failures(served) == 1)


def resumed_connection(port: int, context: ssl.SSLContext, wait: Callable[[], None]) -> bytes:
    """Connect twice with one session, and call `wait` in between; return the response of the second one."""
    session: ssl.SSLSession | None = None
    response = b""
    for number in range(2):
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="localhost", session=session) as client,
        ):
            assert client.session_reused == bool(number)
            session = client.session
            client.sendall(frame(b""))
            response = client.recv(100)
        if not number:
            wait()
    return response


@on_both_loops
async def test_a_client_whose_certificate_has_expired_cannot_resume_its_session() -> None:
    lifetime = datetime.timedelta(hours=1)
    context = context_that_trusts(AUTHORITY.issue("alice", lifetime=lifetime))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    clock = ManualClock(SYSTEM_CLOCK.wall_ms())
    async with running_server(
        respond_with_principal, tls=tls_server(ssl_client_auth="required"), clock=clock
    ) as served:
        assert await asyncio.to_thread(resumed_connection, served.port, context, lambda: None)

        def expire() -> None:
            clock.now_ms += 7_200_000

        assert await asyncio.to_thread(resumed_connection, served.port, context, expire) == b""
        await eventually(lambda: failures(served) == 1)


def alert_of(port: int, context: ssl.SSLContext) -> str:
    """Send a first request after the handshake; return the reason that the server gives."""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as client,
        ):
            client.sendall(bytes(8_000))
            client.recv(1)
    except ssl.SSLError as error:
        return error.reason
    return ""


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize(
    "kind, reason",
    [
        ("missing", "(CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE)"),
        ("untrusted", "UNKNOWN_CA"),
        ("expired", "EXPIRED"),
    ],
)
@on_both_loops
async def test_the_refusal_of_a_certificate_is_reported_to_the_client(
    kind: str, reason: str, version: ssl.TLSVersion
) -> None:
    identities = {
        "missing": None,
        "untrusted": Authority.create("Another CA").issue("alice"),
        "expired": AUTHORITY.issue("alice", lifetime=-datetime.timedelta(hours=1)),
    }
    context = context_that_trusts(identities[kind])
    context.minimum_version = context.maximum_version = version
    async with running_server(tls=tls_server(ssl_client_auth="required")) as served:
        for _ in range(20):
            assert re.search(reason, await asyncio.to_thread(alert_of, served.port, context))
        await eventually(lambda: failures(served) == 20)


async def is_refused(client: Client) -> bool:
    try:
        await client.send(frame(b""))
        return await client.reader.read(1) == b""
    except (ssl.SSLError, ConnectionError):
        return True


@on_both_loops
async def test_a_client_without_tls_is_refused_with_a_clear_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    async with running_server(tls=tls_server()) as served:
        client = await served.connect()
        await client.send(frame(b"\x00\x12\x00\x03 a request of Kafka"))
        assert await client.is_closed()
        await eventually(lambda: "the client does not use TLS" in caplog.text)
        assert failures(served) == 1


@on_both_loops
async def test_log_lines_of_failed_handshakes_are_limited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with running_server(tls=tls_server()) as served:
        for _ in range(3 * LINES_MAX):
            client = await served.connect()
            await client.send(b"garbage, not TLS")
            assert await client.is_closed()
        lines = [one for one in caplog.records if "TLS handshake" in one.message]
        assert len(lines) == LINES_MAX


@on_both_loops
async def test_a_handshake_has_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_handshakes, "TIMEOUT_S", 0.2)
    async with running_server(tls=tls_server()) as served:
        silent, slow, half = [await served.connect() for _ in range(3)]
        await slow.send(client_hello()[:50])
        await half.send(client_hello())
        assert await silent.is_closed() and await slow.is_closed()
        with suppress(ConnectionResetError):
            await half.reader.read()
        await eventually(lambda: served.server.listeners["PLAINTEXT"].socket_count == 0)
        assert failures(served) == 3


def client_hello() -> bytes:
    """Return the first bytes of a client that uses TLS."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = context_that_trusts().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        side.do_handshake()
    return outgoing.read()


@on_both_loops
async def test_a_client_hello_may_be_received_in_parts() -> None:
    async with running_server(tls=tls_server()) as served:
        hello = client_hello()
        client = await served.connect()
        for start in range(0, len(hello), 100):
            await client.send(hello[start : start + 100])
            await asyncio.sleep(0)
        assert (await client.reader.readexactly(1)) == b"\x16"


@on_both_loops
async def test_above_the_limit_the_oldest_handshake_of_the_busiest_address_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_handshakes, "PENDING_MAX", 5)
    async with running_server(tls=tls_server()) as served:
        other = socket.socket()
        other.bind(("127.0.0.2", 0))
        other.setblocking(False)
        await asyncio.get_running_loop().sock_connect(other, ("127.0.0.1", served.port))
        silent = [await served.connect() for _ in range(8)]
        await eventually(lambda: failures(served) == 4)
        for client in silent[:4]:
            assert await client.is_closed()
        good = await served.connect(tls=context_that_trusts())
        assert await good.send_request(b"good") == b"good"
        with pytest.raises(BlockingIOError):
            other.recv(1)
        other.close()


@on_both_loops
async def test_incomplete_and_invalid_handshakes_have_little_effect_on_other_clients() -> None:
    raise_open_file_limit()
    async with running_server(tls=tls_server()) as served:
        good = [await served.connect(tls=context_that_trusts()) for _ in range(50)]

        async def serve_rounds() -> None:
            for _ in range(10):
                responses = await asyncio.gather(*(client.send_request(b"good") for client in good))
                assert responses == [b"good"] * len(good)

        alone = min([await count_python_calls(serve_rounds) for _ in range(3)])
        hello = client_hello()
        silent = [await served.connect() for _ in range(400)]
        torn = [await served.connect() for _ in range(400)]
        for client in torn:
            await client.send(hello[:100])
        half = [await served.connect() for _ in range(200)]
        for client in half:
            await client.send(hello)
        for _ in range(200):
            client = await served.connect()
            await client.send(b"garbage, not TLS")
        together = min([await count_python_calls(serve_rounds) for _ in range(3)])
        assert together <= 1.5 * alone, (together, alone)
        newcomer = await served.connect(tls=context_that_trusts())
        assert await newcomer.send_request(b"good") == b"good"
        for client in silent + torn + half:
            client.reset()
        await eventually(lambda: served.server.listeners["PLAINTEXT"].socket_count == len(good) + 1)


@on_both_loops
async def test_a_close_notify_closes_the_connection_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server(tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        assert await client.send_request(b"x") == b"x"
        client.writer.close()
        await eventually(lambda: served.server.quota.count == 0)
    assert caplog.text == ""


@on_both_loops
async def test_closing_the_server_closes_incomplete_handshakes() -> None:
    async with running_server(tls=tls_server()) as served:
        client = await served.connect()
        await eventually(lambda: served.server.listeners["PLAINTEXT"].socket_count == 1)
        await served.server.close(0)
        assert await client.is_closed()


@on_both_loops
async def test_buffered_bytes_of_a_slow_reader_are_limited_by_the_high_water_mark(tmp_path: Path) -> None:
    data = bytes(20_000_000)
    path = tmp_path / "slice"
    path.write_bytes(data)
    with closing(OsFileSystem().open(str(path), create=False)) as file:

        def respond(request: Request) -> None:
            request.respond([len(data).to_bytes(4, "big"), FileSlice(file, 0, len(data))])

        async with running_server(respond, tls=tls_server()) as served:
            client = await served.connect(receive_buffer_bytes=4096, tls=context_that_trusts())
            await client.send(frame(b""))
            await eventually(lambda: served.server.quota.count == 1)
            (connection,) = served.server.connections()
            await eventually(lambda: connection.unsent_bytes > 0)
            await loop_iterations(100)
            writer = connection._writer
            assert writer is not None and writer.memory_bytes <= 1_000_000
            assert await client.receive() == data
