"""Bursts of connections: none is reset, and others are served."""

from __future__ import annotations

import asyncio
import errno
import logging
import selectors
import socket
import struct
from itertools import pairwise

import pytest

from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import RunningServer, frame, running_server
from tests.support.waiting import eventually
from tidelog.broker.logs.descriptor_budget import raise_open_file_limit
from tidelog.broker.network import acceptor
from tidelog.broker.network.acceptor import BATCH, RESET_BATCH, Acceptor
from tidelog.broker.network.sockets import SYSTEM_SOCKETS


def open_connections(served: RunningServer, count: int) -> list[socket.socket]:
    """Open connections while the loop does not run, so that none is accepted meanwhile."""
    sockets = []
    with selectors.DefaultSelector() as selector:
        for _ in range(count):
            one = socket.socket()
            one.setblocking(False)
            assert one.connect_ex(("127.0.0.1", served.port)) in (0, errno.EINPROGRESS)
            selector.register(one, selectors.EVENT_WRITE)
            assert selector.select(timeout=10), "the accept queue is full"
            selector.unregister(one)
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
            sockets.append(one)
    return sockets


async def receive_responses(sockets: list[socket.socket]) -> list[bytes]:
    loop = asyncio.get_running_loop()

    async def exchange(each: socket.socket) -> bytes:
        await loop.sock_sendall(each, frame(b"hello"))
        return await loop.sock_recv(each, 100)

    return await asyncio.gather(*map(exchange, sockets))


def test_by_default_the_accept_queue_is_as_long_as_the_system_allows() -> None:
    assert SYSTEM_SOCKETS.accept_queue_size(network_config().socket_listen_backlog_size) >= min(
        socket.SOMAXCONN, 128
    )
    assert SYSTEM_SOCKETS.accept_queue_size(50) == 50


@on_both_loops
async def test_a_burst_of_connections_waits_in_the_accept_queue_and_none_is_lost() -> None:
    raise_open_file_limit()
    async with running_server() as served:
        count = min(1_000, SYSTEM_SOCKETS.accept_queue_size(-1))
        sockets = open_connections(served, count)
        assert await receive_responses(sockets) == [frame(b"hello")] * count
        for one in sockets:
            one.close()
        await eventually(lambda: served.server.quota.count == 0)


@on_both_loops
async def test_a_bounded_number_of_connections_is_accepted_per_loop_iteration() -> None:
    loop = asyncio.get_running_loop()
    async with running_server() as served:
        accepted = [0]

        def note() -> None:
            accepted.append(served.server.counters.connections_accepted)
            if accepted[-1] < len(sockets):
                loop.call_soon(note)

        sockets = open_connections(served, min(6 * BATCH, SYSTEM_SOCKETS.accept_queue_size(-1)))
        note()
        await eventually(lambda: accepted[-1] == len(sockets))
        steps = [after - before for before, after in pairwise(accepted)]
        assert BATCH // 2 <= max(steps) <= BATCH
        for one in sockets:
            one.close()


@on_both_loops
async def test_connections_that_were_reset_in_the_accept_queue_do_not_delay_others() -> None:
    accepted: list[socket.socket] = []
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.setblocking(False)
    accepting = Acceptor("PLAINTEXT", listening, asyncio.get_running_loop(), accepted.append)
    accepting.start(RESET_BATCH + 1)
    iterations = 0
    for _ in range(RESET_BATCH // 2):
        reset = socket.create_connection(listening.getsockname())
        reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reset.close()
    with socket.create_connection(listening.getsockname()) as client:
        while not accepted:
            await asyncio.sleep(0)
            iterations += 1
        assert accepted[0].getpeername() == client.getsockname()
    # A batch of connections in each iteration would need many more.
    assert iterations <= 3
    accepting.stop()
    accepted[0].close()


class ExhaustedSocket(socket.socket):
    """A listening socket of a process that has no descriptors left, until `is_exhausted` is reset."""

    is_exhausted = True

    def accept(self) -> tuple[socket.socket, tuple[str, int]]:
        if self.is_exhausted:
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@on_both_loops
async def test_without_descriptors_connections_wait_in_the_accept_queue(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor, "RETRY_S", 0.02)
    listening = ExhaustedSocket()
    listening.bind(("127.0.0.1", 0))
    listening.setblocking(False)
    accepted: list[socket.socket] = []
    accepting = Acceptor("PLAINTEXT", listening, asyncio.get_running_loop(), accepted.append)
    accepting.start(10)
    with caplog.at_level(logging.ERROR), socket.create_connection(listening.getsockname()):
        await eventually(lambda: len(caplog.records) >= 2)
        assert "Listener PLAINTEXT cannot accept connections: Too many open files" in caplog.text
        listening.is_exhausted = False
        await eventually(lambda: bool(accepted))
    accepting.stop()
    accepted[0].close()
