"""Sending of file slices: every byte in order, for any reader and any change of the file."""

from __future__ import annotations

import asyncio
import hashlib
import io
import logging
import os
import random
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import echo, frame, running_server
from tests.support.waiting import eventually
from tidelog.base.clock import SystemClock
from tidelog.broker.network.request import Request, ResponsePart
from tidelog.broker.network.response_writer import COPY_COST, SENDFILE_BYTES, TURN_BYTES, ResponseWriter
from tidelog.broker.network.shared_descriptors import SharedDescriptors
from tidelog.broker.network.socket_watcher import SocketWatcher
from tidelog.storage.disk.descriptor_pool import DescriptorPool
from tidelog.storage.disk.files import File
from tidelog.storage.disk.on_demand_file import OnDemandFile
from tidelog.storage.disk.os_files import OsFileSystem
from tidelog.storage.segment.file_slice import FileSlice

MEBIBYTE = 1024 * 1024


@pytest.fixture
def content() -> bytes:
    return random.Random(7).randbytes(12 * MEBIBYTE)


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> File:
    file = OsFileSystem().open(str(tmp_path / "00000000000000000000.log"), create=True)
    file.append(content)
    return file


def with_size(*parts: ResponsePart) -> list[ResponsePart]:
    size = sum(part.length if isinstance(part, FileSlice) else len(part) for part in parts)
    return [struct.pack(">i", size), *parts]


def responder_with(parts: list[ResponsePart]) -> Callable[[Request], None]:
    def handler(request: Request) -> None:
        if bytes(request.frame) == b"fetch":
            request.respond(parts)
        else:
            echo(request)

    return handler


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def ignore(_: object) -> None:
    pass


@on_both_loops
async def test_a_large_file_slice_is_sent_by_sendfile_unchanged(
    file: File, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_sendfile = 0

    def count_calls(target: int, source: int, position: int, count: int) -> int:
        nonlocal by_sendfile
        sent = sendfile(target, source, position, count)
        by_sendfile += sent
        return sent

    sendfile = os.sendfile
    monkeypatch.setattr(os, "sendfile", count_calls)
    parts = with_size(b"head", FileSlice(file, 1_234, 10 * MEBIBYTE), b"tail")
    async with running_server(responder_with(parts)) as served:
        client = await served.connect(limit=2**22)
        expected = digest(b"head" + content[1_234 : 1_234 + 10 * MEBIBYTE] + b"tail")
        for _ in range(3):
            assert digest(await client.send_request(b"fetch")) == expected
        assert by_sendfile == 3 * 10 * MEBIBYTE


@on_both_loops
async def test_a_slow_reader_gets_every_byte_while_others_are_served(file: File, content: bytes) -> None:
    config = network_config(socket_send_buffer_bytes=16_384)
    parts = with_size(b"head", FileSlice(file, 0, 3 * MEBIBYTE), b"tail")
    async with running_server(responder_with(parts), config) as served:
        slow = await served.connect(receive_buffer_bytes=8_192, limit=8_192)
        good = await served.connect()
        await slow.send(frame(b"fetch") + frame(b"after"))
        received = bytearray()
        wanted = 4 + 8 + 3 * MEBIBYTE + len(frame(b"after"))
        while len(received) < wanted:
            received += await slow.reader.readexactly(min(50_000, wanted - len(received)))
            assert await good.send_request(b"good") == b"good"
        body = b"head" + content[: 3 * MEBIBYTE] + b"tail"
        assert digest(bytes(received)) == digest(frame(body) + frame(b"after"))


@on_both_loops
async def test_large_bytes_are_copied_to_the_socket_in_pieces_of_256_kib(content: bytes) -> None:
    sizes: list[int] = []

    class RecordingSocket(socket.socket):
        def send(self, data: memoryview, flags: int = 0) -> int:  # type: ignore[override]
            sizes.append(len(data))
            return super().send(data, flags)

    own, peer = socket.socketpair()
    recording = RecordingSocket(own.family, own.type, own.proto, own.detach())
    recording.setblocking(False)
    transport = RecordingTransport(uses_tls=False)
    watcher = SocketWatcher(asyncio.get_running_loop(), SystemClock())
    writer = ResponseWriter(transport, recording, watcher, SharedDescriptors(), lambda: None, ignore, ignore)
    transport.writer = writer
    writer.write([b"head", content])
    received = bytearray()
    loop = asyncio.get_running_loop()
    peer.setblocking(False)
    while len(received) < 4 + len(content):
        received += await loop.sock_recv(peer, 300_000)
    assert digest(bytes(received)) == digest(b"head" + content)
    assert max(sizes) == TURN_BYTES // COPY_COST == 256 * 1024 and not transport.sent
    await eventually(lambda: not writer.is_blocked)
    writer.close()
    watcher.close()
    recording.close()
    peer.close()


@on_both_loops
async def test_file_slices_of_all_sizes_are_mixed_with_bytes_and_pipelined_requests(
    file: File, content: bytes
) -> None:
    lengths = [0, 1, 100, SENDFILE_BYTES - 1, SENDFILE_BYTES, SENDFILE_BYTES + 1, 400_000, 1_000_000]
    generator = random.Random(1)
    responses: list[list[ResponsePart]] = []
    expected: list[bytes] = []
    for _ in range(40):
        parts: list[ResponsePart] = []
        body = b""
        for _ in range(generator.randrange(6)):
            if generator.random() < 0.5:
                data = generator.randbytes(generator.choice([0, 3, 5_000, 200_000]))
                parts.append(data)
                body += data
            else:
                length = generator.choice(lengths)
                position = generator.randrange(MEBIBYTE)
                parts.append(FileSlice(file, position, length))
                body += content[position : position + length]
        responses.append(with_size(*parts))
        expected.append(body)

    def handler(request: Request) -> None:
        request.respond(responses[request.frame[0]])

    config = network_config(socket_send_buffer_bytes=65_536)
    async with running_server(handler, config) as served:
        client = await served.connect(limit=2**21)
        await client.send(b"".join(frame(bytes([number])) for number in range(len(responses))))
        for number, body in enumerate(expected):
            assert digest(await client.receive()) == digest(body), f"response {number}"


@on_both_loops
async def test_a_file_slice_waits_for_bytes_buffered_in_the_transport(file: File, content: bytes) -> None:
    """Bytes already given to the transport and sendfile must not overtake each other."""
    config = network_config(socket_send_buffer_bytes=4_096)
    late: list[Request] = []

    def handler(request: Request) -> None:
        if bytes(request.frame) == b"bytes":
            request.respond(frame(b"b" * 200_000))
        else:
            late.append(request)

    async with running_server(handler, config) as served:
        client = await served.connect(receive_buffer_bytes=4_096, limit=4_096)
        await client.send(frame(b"bytes") + frame(b"slice"))
        await eventually(lambda: bool(late))
        (connection,) = served.server.connections()
        assert connection.unsent_bytes > 0
        late[0].respond(with_size(FileSlice(file, 0, MEBIBYTE)))
        assert await client.receive() == b"b" * 200_000
        assert digest(await client.receive()) == digest(content[:MEBIBYTE])


@on_both_loops
async def test_a_reset_during_sendfile_closes_only_its_connection(file: File) -> None:
    config = network_config(socket_send_buffer_bytes=16_384)
    parts = with_size(FileSlice(file, 0, 10 * MEBIBYTE))
    async with running_server(responder_with(parts), config) as served:
        # The loop opens a descriptor of its own with the first connection.
        first = await served.connect()
        assert await first.send_request(b"first") == b"first"
        first.close()
        await eventually(lambda: served.server.quota.count == 0)
        open_before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            client = await served.connect(receive_buffer_bytes=8_192)
            await client.send(frame(b"fetch"))
            await client.reader.readexactly(100_000)
            client.reset()
        await eventually(lambda: served.server.quota.count == 0)
        good = await served.connect()
        assert await good.send_request(b"good") == b"good"
        good.close()
        await eventually(lambda: served.server.quota.count == 0)
        await eventually(lambda: len(os.listdir("/proc/self/fd")) <= open_before)


@on_both_loops
async def test_a_truncated_file_closes_the_connection_and_is_logged(
    file: File, caplog: pytest.LogCaptureFixture
) -> None:
    length = 12 * MEBIBYTE
    for parts in (
        with_size(FileSlice(file, length - 100_000, 100_001)),
        with_size(FileSlice(file, length - 10, 11)),
        with_size(b"x", FileSlice(file, length, SENDFILE_BYTES)),
    ):
        caplog.clear()
        async with running_server(responder_with(parts)) as served:
            client = await served.connect()
            with caplog.at_level(logging.ERROR):
                await client.send(frame(b"fetch"))
                with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                    await client.receive()
                await eventually(lambda: served.server.quota.count == 0)
            assert any("the response needs" in record.getMessage() for record in caplog.records)


@on_both_loops
async def test_a_segment_deleted_during_sending_is_sent_completely(file: File, content: bytes) -> None:
    config = network_config(socket_send_buffer_bytes=16_384)
    parts = with_size(FileSlice(file, 0, 5 * MEBIBYTE), b"mid", FileSlice(file, 100, 2 * MEBIBYTE))
    async with running_server(responder_with(parts), config) as served:
        client = await served.connect(receive_buffer_bytes=8_192)
        await client.send(frame(b"fetch"))
        start = await client.reader.readexactly(20_000)
        OsFileSystem().unlink(file.path)
        file.close()
        rest = await client.reader.readexactly(4 + 7 * MEBIBYTE + 3 - 20_000)
        body = content[: 5 * MEBIBYTE] + b"mid" + content[100 : 100 + 2 * MEBIBYTE]
        assert digest(start + rest) == digest(frame(body))


@on_both_loops
async def test_a_reader_that_stops_during_sendfile_is_closed_when_idle(file: File) -> None:
    config = network_config(socket_send_buffer_bytes=16_384, connections_max_idle_ms=60)
    parts = with_size(FileSlice(file, 0, 10 * MEBIBYTE))
    async with running_server(responder_with(parts), config) as served:
        client = await served.connect(receive_buffer_bytes=8_192)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(frame(b"fetch"))
        await eventually(lambda: served.server.counters.connections_expired == 1)
        await eventually(lambda: served.server.quota.count == 0)


@on_both_loops
async def test_a_large_unread_fetch_holds_only_the_descriptor_of_its_socket(file: File) -> None:
    config = network_config(socket_send_buffer_bytes=16_384)
    parts = with_size(FileSlice(file, 0, 5 * MEBIBYTE), b"mid", FileSlice(file, 100, 5 * MEBIBYTE))
    async with running_server(responder_with(parts), config) as served:
        clients = [await served.connect(receive_buffer_bytes=8_192) for _ in range(20)]
        for client in clients:
            assert await client.send_request(b"echo") == b"echo"
        before = len(os.listdir("/proc/self/fd"))
        for client in clients:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(frame(b"fetch"))
        await eventually(lambda: all(each.unsent_bytes for each in served.server.connections()))
        assert len(os.listdir("/proc/self/fd")) <= before + 1
        assert len(served.server.shared_descriptors) == 1
        for client in clients:
            client.reset()
        await eventually(lambda: served.server.quota.count == 0)
        assert len(served.server.shared_descriptors) == 0


@on_both_loops
async def test_unread_fetches_of_many_segments_hold_at_most_the_descriptors_of_the_pool(
    tmp_path: Path, content: bytes
) -> None:
    """Slow readers of old data must not use the descriptors of partitions; their responses continue."""
    size_max = 2
    pool: DescriptorPool[File] = DescriptorPool(size_max)
    disk = OsFileSystem(pool)
    for number in range(10):
        (tmp_path / f"{number}.log").write_bytes(content[: 5 * MEBIBYTE])
    sealed = [OnDemandFile(disk, str(tmp_path / f"{number}.log")) for number in range(10)]
    slices = iter(sealed)

    def respond(request: Request) -> None:
        file = next(slices)
        request.respond(with_size(FileSlice(file, 0, 5 * MEBIBYTE, file.hold())))

    async with running_server(respond, network_config(socket_send_buffer_bytes=16_384)) as served:
        clients = [await served.connect(receive_buffer_bytes=8_192) for _ in sealed]
        before = len(os.listdir("/proc/self/fd"))
        for client in clients:
            client.writer.transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(frame(b"fetch"))
        await eventually(lambda: all(each.unsent_bytes for each in served.server.connections()))
        assert len(os.listdir("/proc/self/fd")) <= before + size_max
        sealed[0].rename(str(tmp_path / "0.log.deleted"))
        sealed[0].retire(has_path=True)
        for client in (clients[0], clients[9]):
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            received = await client.reader.readexactly(4 + 5 * MEBIBYTE)
            assert digest(received[4:]) == digest(content[: 5 * MEBIBYTE])
        for client in clients:
            client.reset()
        await eventually(lambda: served.server.quota.count == 0)


class MemoryFile:
    """A file without a descriptor, as a simulated disk has."""

    path = "memory"

    def pread(self, length: int, position: int) -> bytes:
        return (bytes(range(256)) * 1_000)[position : position + length]

    def fileno(self) -> int:
        raise io.UnsupportedOperation("no descriptor")


@on_both_loops
async def test_a_file_without_a_descriptor_is_read(file: File) -> None:
    parts = with_size(FileSlice(MemoryFile(), 256, 200_000))  # type: ignore[arg-type]
    async with running_server(responder_with(parts)) as served:
        client = await served.connect(limit=2**20)
        assert await client.send_request(b"fetch") == (bytes(range(256)) * 1_000)[256:200_256]


class RecordingTransport(asyncio.Transport):
    """Records the written bytes, and drains only when the test calls it; it may appear to be encrypted."""

    def __init__(self, *, uses_tls: bool = True) -> None:
        super().__init__({"ssl_object": object() if uses_tls else None})
        self.sent = bytearray()
        self.held = 0
        self.high = 0
        self.writer: ResponseWriter | None = None

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high is not None
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.held

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert self.writer is not None
        was_over = self.held > self.high
        self.sent += data
        self.held += len(data)
        if self.held > self.high and not was_over:
            self.writer.pause()

    def drain(self) -> None:
        assert self.writer is not None
        was_over = self.held > self.high
        self.held = 0
        if was_over:
            self.writer.resume()


@on_both_loops
async def test_the_memory_of_an_unsent_response_is_released_after_the_connection_has_ended(
    content: bytes,
) -> None:
    """Seven connections that ended with 36 MB of unsent bytes each blocked the event loop for 18 ms."""
    unused: list[memoryview] = []
    own, peer = socket.socketpair()
    own.setblocking(False)
    watcher = SocketWatcher(asyncio.get_running_loop(), SystemClock())
    transport = RecordingTransport(uses_tls=False)
    writer = ResponseWriter(transport, own, watcher, SharedDescriptors(), lambda: None, ignore, unused.append)
    response = bytearray(content[: 4 * MEBIBYTE])
    writer.write((response,))
    writer.close()
    assert [part.obj for part in unused] == [response] and unused[0].obj is response
    watcher.close()
    own.close()
    peer.close()


@on_both_loops
async def test_with_tls_file_slices_are_read_in_parts_as_the_transport_drains(
    file: File, content: bytes
) -> None:
    transport = RecordingTransport()
    ready: list[bool] = []
    watcher = SocketWatcher(asyncio.get_running_loop(), SystemClock())
    writer = ResponseWriter(
        transport,
        socket.socket(),
        watcher,
        SharedDescriptors(),
        lambda: ready.append(True),
        ignore,
        ignore,
    )
    transport.writer = writer
    writer.write([b"head", FileSlice(file, 5, 4 * MEBIBYTE), b"tail", FileSlice(file, 9, 70_000)])
    writer.flush()
    largest = transport.held
    while writer.is_blocked:
        transport.drain()
        largest = max(largest, transport.held)
    assert digest(bytes(transport.sent)) == digest(
        b"head" + content[5 : 5 + 4 * MEBIBYTE] + b"tail" + content[9:70_009]
    )
    assert largest <= 600_000
    assert ready == [True]
    writer.close()
    watcher.close()


@on_both_loops
@pytest.mark.parametrize("is_in_memory", [False, True], ids=["file slice", "bytes"])
async def test_with_tls_the_work_per_loop_iteration_is_bounded(
    file: File, content: bytes, is_in_memory: bool
) -> None:
    transport = RecordingTransport()
    watcher = SocketWatcher(asyncio.get_running_loop(), SystemClock())
    own, peer = socket.socketpair()
    writer = ResponseWriter(transport, own, watcher, SharedDescriptors(), lambda: None, ignore, ignore)
    transport.writer, transport.high = writer, 2**40
    writer.write([content[: 4 * MEBIBYTE] if is_in_memory else FileSlice(file, 0, 4 * MEBIBYTE)])
    assert writer.is_blocked and len(transport.sent) == TURN_BYTES
    await eventually(lambda: not writer.is_blocked)
    assert digest(bytes(transport.sent)) == digest(content[: 4 * MEBIBYTE])
    writer.close()
    watcher.close()
    own.close()
    peer.close()
