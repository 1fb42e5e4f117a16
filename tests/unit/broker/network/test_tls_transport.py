"""The transport of a connection with TLS: small records, pauses, the socket's low-water mark, and the end."""

from __future__ import annotations

import asyncio
import random
import socket
from pathlib import Path

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import Client, RunningServer, echo, frame, running_server
from tests.support.security.key_updates import client_secret, key_updates
from tests.support.security.tls_listener import context_that_trusts, tls_server
from tests.support.waiting import eventually
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.memory import SpareMemory
from tidelog.broker.network.receive_buffer import NORMAL_BYTES, ReceiveBuffer
from tidelog.broker.network.request import Request
from tidelog.broker.network.tls_handshake import ReadMemory, State, TlsHandshake
from tidelog.broker.network.tls_session import EMPTY_RECORDS_MAX
from tidelog.broker.network.tls_transport import LOW_WATER_MAX, TlsTransport


async def connection_of(served: RunningServer) -> Connection:
    await eventually(lambda: served.server.quota.count == 1)
    (connection,) = served.server.connections()
    return connection


def low_water(connection: Connection) -> int:
    return connection._client_socket.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)


async def send_in_records(client: Client, data: bytes, record_bytes: int) -> None:
    """Send one record for each `record_bytes` bytes."""
    for start in range(0, len(data), record_bytes):
        await client.send(data[start : start + record_bytes])


@on_both_loops
async def test_the_socket_is_reported_when_the_rest_of_the_frame_is_received() -> None:
    async with running_server(tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        connection = await connection_of(served)
        body = bytes(10_000)
        await client.send(frame(body)[:1_000])
        await eventually(lambda: low_water(connection) == 9_004)
        await client.send(frame(body)[1_000:])
        assert await client.receive() == body
        await eventually(lambda: low_water(connection) == 1)


@on_both_loops
async def test_the_low_water_mark_is_bounded() -> None:
    async with running_server(tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        connection = await connection_of(served)
        body = bytes(1_000_000)
        await client.send(frame(body)[:1_000])
        await eventually(lambda: low_water(connection) == LOW_WATER_MAX)
        await client.send(frame(body)[1_000:])
        assert await client.receive() == body


@on_both_loops
async def test_a_slow_client_is_not_idle_although_its_frame_is_incomplete() -> None:
    async with running_server(tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        connection = await connection_of(served)
        body = bytes(10_000)
        await client.send(frame(body)[:1_000])
        await eventually(lambda: low_water(connection) > 1)
        served.server.sweep()
        await client.send(frame(body)[1_000:1_001])
        # The byte is received, so that the next sweep detects it.
        await eventually(lambda: connection.core.buffer.missing_bytes() == 9_003)


class PausingConnection:
    """Pauses reading whenever it has received a whole frame, and handles it at once."""

    def __init__(self) -> None:
        self.buffer = ReceiveBuffer(1_000_000, SpareMemory())
        self.frames: list[bytes] = []
        self.transport: TlsTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsTransport)
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self.buffer.on_received(nbytes)
        while (received := self.buffer.next_frame()) is not None:
            self.frames.append(bytes(received))
            self.buffer.release()
            assert self.transport is not None
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...

    def fail(self, reason: str) -> None:
        raise AssertionError(reason)

    def connection_lost(self, exc: Exception | None) -> None: ...


def is_complete(handshake: TlsHandshake) -> bool:
    handshake.advance()
    return handshake.state is State.COMPLETE


@on_both_loops
async def test_the_rest_of_a_frame_is_received_when_reading_was_paused_after_a_longer_frame() -> None:
    loop, connection = asyncio.get_running_loop(), PausingConnection()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        opening = loop.create_task(
            asyncio.open_connection(
                *listening.getsockname(), ssl=context_that_trusts(), server_hostname="localhost"
            )
        )
        accepted, _ = await loop.sock_accept(listening)
        handshake = TlsHandshake(tls_server().context, accepted, ReadMemory())
        await eventually(lambda: is_complete(handshake))
        assert handshake.session is not None
        transport = TlsTransport(handshake.session, accepted, ReadMemory(), connection)
        await loop.connect_accepted_socket(lambda: transport, accepted)
        _, writer = await opening
        # The memory for the long frame has space for the start of the next one.
        long, short = frame(bytes(100_000)), frame(bytes(2_000))
        writer.write(long[:1_000])
        await eventually(lambda: accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == LOW_WATER_MAX)
        writer.write(long[1_000:] + short[:1_500])
        await eventually(lambda: len(connection.frames) == 1)
        transport.resume_reading()
        writer.write(short[1_500:])
        await eventually(lambda: len(connection.frames) == 2)
        writer.transport.abort()
        transport.abort()
        await transport.closed


@on_both_loops
async def test_requests_in_small_records_get_their_responses_although_reading_is_paused_again_and_again() -> (
    None
):
    sizes = random.Random(7)
    bodies = [bytes([number % 251]) * sizes.choice((0, 1, 3_000, 40_000, 300_000)) for number in range(120)]
    loop = asyncio.get_running_loop()

    def respond_later(request: Request) -> None:
        size = len(request.frame)
        loop.call_later(0.001, request.respond, frame(size.to_bytes(4, "big")))

    async with running_server(respond_later, tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())

        async def send_all() -> None:
            for body in bodies:
                await send_in_records(client, frame(body), sizes.choice((700, 5_000, 100_000)))

        sending = asyncio.create_task(send_all())
        for body in bodies:
            assert int.from_bytes(await client.receive(), "big") == len(body)
        await sending


@on_both_loops
async def test_a_client_that_sends_only_key_updates_is_disconnected(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    context = context_that_trusts()
    context.keylog_filename = str(tmp_path / "keys")
    async with running_server(tls=tls_server()) as served:
        client = await served.connect(tls=context)
        await connection_of(served)
        # Below the TLS of the client, which has sent nothing after its handshake.
        descriptor = client.writer.get_extra_info("socket").fileno()
        with socket.socket(fileno=socket.dup(descriptor)) as raw:
            raw.setblocking(False)
            records = key_updates(client_secret(tmp_path / "keys"), 2 * EMPTY_RECORDS_MAX)
            await asyncio.get_running_loop().sock_sendall(raw, records)
        assert await client.is_closed()
        assert "its TLS records are invalid: 256 records without data" in caplog.text


@on_both_loops
async def test_a_record_that_is_not_encrypted_closes_the_connection_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server(tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        await connection_of(served)
        descriptor = client.writer.get_extra_info("socket").fileno()
        with socket.socket(fileno=socket.dup(descriptor)) as raw:
            raw.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        await eventually(lambda: served.server.quota.count == 0)
        assert "its TLS records are invalid: " in caplog.text


@on_both_loops
async def test_invalid_records_after_a_request_whose_response_is_collected_close_the_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """OpenSSL cannot encrypt the response any more. This error was logged, and the socket stayed open."""

    def handle(request: Request) -> None:
        echo(request)
        if bytes(request.frame) == b"before invalid records":
            # Before the loop sends the response, which is collected.
            asyncio.get_running_loop().call_soon(receive_invalid_record)

    def receive_invalid_record() -> None:
        record = b"\x17\x03\x03\x00\x20" + bytes(32)
        transport = connection._transport
        assert isinstance(transport, TlsTransport)
        transport.get_buffer(-1)[: len(record)] = record
        transport.buffer_updated(len(record))

    # Time stands still, so that turns follow each other.
    async with running_server(handle, clock=ManualClock(), tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        connection = await connection_of(served)
        assert await client.send_request(b"first") == b"first"
        await client.send(frame(b"before invalid records"))
        assert await client.is_closed()
        await eventually(lambda: served.server.quota.count == 0)
    (line,) = caplog.messages
    assert "its TLS records are invalid: " in line


@on_both_loops
async def test_a_client_that_closes_without_close_notify_is_disconnected_without_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server(tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        assert await client.send_request(b"x") == b"x"
        client.close()
        await eventually(lambda: served.server.quota.count == 0)
    assert caplog.text == ""


def close_sending_half(client: Client) -> None:
    """Close the sending half of the socket, without close_notify."""
    with socket.socket(fileno=socket.dup(client.writer.get_extra_info("socket").fileno())) as raw:
        raw.shutdown(socket.SHUT_WR)


class MutingHandler:
    """The test responds to requests with W; the others are recorded, and need no response."""

    def __init__(self) -> None:
        self.working: list[Request] = []
        self.handled: list[bytes] = []

    def __call__(self, request: Request) -> None:
        body = bytes(request.frame[:8])
        if body.startswith(b"W"):
            self.working.append(request)
        else:
            self.handled.append(body)
            request.respond(None)


@pytest.mark.parametrize("how", ["close_notify", "end of the socket"])
@pytest.mark.parametrize("later_bytes", [1_000, 2 * NORMAL_BYTES])
@on_both_loops
async def test_requests_before_a_close_with_tls_are_handled_although_an_earlier_one_is_in_progress(
    later_bytes: int, how: str
) -> None:
    handler = MutingHandler()
    config = network_config(socket_receive_buffer_bytes=4 * NORMAL_BYTES)
    async with running_server(handler, config, tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        connection = await connection_of(served)
        later = [frame(b"%08d" % number + bytes(490)) for number in range(later_bytes // 500)]
        await client.send(frame(b"W") + b"".join(later))
        await eventually(lambda: bool(handler.working))
        if later_bytes > NORMAL_BYTES:
            await eventually(lambda: connection._reading.is_paused)
        if how == "close_notify":
            client.writer.close()
        else:
            close_sending_half(client)
        # While the buffer is full, close_notify is not read.
        await eventually(lambda: connection.core.has_peer_closed or connection._reading.is_paused)
        assert not handler.handled
        handler.working[0].respond(None)
        await eventually(lambda: served.server.quota.count == 0)
        assert handler.handled == [b"%08d" % number for number in range(len(later))]


@on_both_loops
async def test_a_client_that_has_closed_its_sending_half_gets_the_response_to_its_last_request() -> None:
    handler = MutingHandler()
    async with running_server(handler, tls=tls_server()) as served:
        client = await served.connect(tls=context_that_trusts())
        connection = await connection_of(served)
        await client.send(frame(b"W"))
        await eventually(lambda: bool(handler.working))
        close_sending_half(client)
        await eventually(lambda: connection.core.has_peer_closed)
        handler.working[0].respond(frame(b"late"))
        assert await client.receive() == b"late"
        await eventually(lambda: served.server.quota.count == 0)
