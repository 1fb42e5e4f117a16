"""Peers that close while their request waits are detected in every state of the buffers."""

from __future__ import annotations

import asyncio
import os

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import Client, RunningServer, echo, frame, running_server
from tests.support.waiting import eventually
from tidelog.broker.network.receive_buffer import NORMAL_BYTES, SPARE_FRAME_BYTES
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import PEER_CLOSED_MS_MAX

PRODUCE = b"\0\0"


class Handler:
    """Requests with P are parked, those with W are in progress, others get a response at once."""

    def __init__(self) -> None:
        self.parked: list[bytes] = []
        self.abandoned: list[bytes] = []
        self.working: list[Request] = []
        self.handled: list[bytes] = []

    def __call__(self, request: Request) -> None:
        body = bytes(request.frame[:8])
        if body.startswith(b"P"):
            request.on_abandoned = lambda _: self.abandoned.append(body)
            self.parked.append(body)
        elif body.startswith(PRODUCE):
            request.on_abandoned = lambda _: self.abandoned.append(body)
            self.parked.append(body)
            request.park()
        elif body.startswith(b"W"):
            self.working.append(request)
        else:
            self.handled.append(body)
            echo(request)


async def until_reading_is_paused(served: RunningServer) -> None:
    (connection,) = served.server.connections()
    await eventually(lambda: connection._reading.is_paused)


def leave(client: Client, how: str) -> None:
    if how == "reset":
        client.reset()
    elif how == "half-close":
        client.writer.write_eof()
    else:
        client.close()


@pytest.mark.parametrize("how", ["close", "half-close", "reset"])
@pytest.mark.parametrize("size", [100, NORMAL_BYTES, SPARE_FRAME_BYTES + 1])
@on_both_loops
async def test_a_close_after_a_parked_request_is_detected_for_any_frame_size(size: int, how: str) -> None:
    handler = Handler()
    async with running_server(handler) as served:
        client = await served.connect()
        await client.send(frame(b"P" * size))
        await eventually(lambda: bool(handler.parked))
        leave(client, how)
        await eventually(lambda: served.server.quota.count == 0)
        assert handler.abandoned == handler.parked
        assert not served.server.watcher._callbacks


@pytest.mark.parametrize("how", ["close", "half-close", "reset"])
@on_both_loops
async def test_a_close_is_detected_while_unread_bytes_exceed_the_buffer(
    how: str,
) -> None:
    handler = Handler()
    config = network_config(socket_receive_buffer_bytes=4 * NORMAL_BYTES)
    async with running_server(handler, config) as served:
        client = await served.connect()
        await client.send(frame(b"P") + frame(b"x" * 1_000) * (2 * NORMAL_BYTES // 1_000))
        await until_reading_is_paused(served)
        leave(client, how)
        await eventually(lambda: served.server.quota.count == 0)
        assert handler.abandoned == [b"P"]


@on_both_loops
async def test_requests_after_an_abandoned_one_are_handled_without_waiting() -> None:
    handler = Handler()
    config = network_config(socket_receive_buffer_bytes=4 * NORMAL_BYTES)
    async with running_server(handler, config) as served:
        client = await served.connect()
        behind = 2 * NORMAL_BYTES // 1_000
        await client.send(frame(b"P") + frame(b"x" * 1_000) * behind + frame(b"P2") + frame(b"last"))
        await until_reading_is_paused(served)
        client.writer.write_eof()
        await eventually(lambda: served.server.quota.count == 0)
        assert handler.abandoned == [b"P", b"P2"]
        assert len(handler.handled) == behind + 1
        assert handler.handled[-1] == b"last"


@on_both_loops
async def test_pending_responses_to_a_disconnected_peer_are_abandoned() -> None:
    handler = Handler()
    async with running_server(handler) as served:
        client = await served.connect()
        await client.send(frame(PRODUCE + b"1") + frame(PRODUCE + b"2") + frame(b"other") + frame(b"P"))
        await eventually(lambda: len(handler.parked) == 2)
        client.close()
        await eventually(lambda: served.server.quota.count == 0)
        assert handler.abandoned == [PRODUCE + b"1", PRODUCE + b"2", b"P"]
        assert handler.handled == [b"other"]


@on_both_loops
async def test_a_half_closed_peer_gets_the_response_to_its_active_request() -> None:
    handler = Handler()
    async with running_server(handler) as served:
        client = await served.connect()
        await client.send(frame(b"W") + frame(b"next"))
        client.writer.write_eof()
        await eventually(lambda: bool(handler.working))
        handler.working[0].respond(frame(b"done"))
        assert await client.receive() == b"done"
        assert await client.receive() == b"next"
        assert await client.is_closed()
        await eventually(lambda: served.server.quota.count == 0)


@on_both_loops
async def test_work_on_a_request_ends_with_the_connection_and_not_with_a_half_close() -> None:
    handler = Handler()
    lost: list[Request] = []
    async with running_server(handler) as served:
        client = await served.connect()
        await client.send(frame(b"W"))
        await eventually(lambda: bool(handler.working))
        handler.working[0].on_lost = lost.append
        client.writer.write_eof()
        (connection,) = served.server.connections()
        await eventually(lambda: connection.core.has_peer_closed)
        assert not lost
        connection.abort()
        await eventually(lambda: bool(lost))


@on_both_loops
async def test_a_disconnected_peer_does_not_keep_its_connection_during_work_on_its_request() -> None:
    clock = ManualClock()
    handler = Handler()
    async with running_server(handler, clock=clock) as served:
        client = await served.connect()
        await client.send(frame(b"W"))
        await eventually(lambda: bool(handler.working))
        served.server.sweep()
        client.close()
        (connection,) = served.server.connections()
        await eventually(lambda: connection.core.has_peer_closed)
        served.server.sweep()
        assert served.server.quota.count == 1
        clock.now_ms += PEER_CLOSED_MS_MAX
        served.server.sweep()
        await eventually(lambda: served.server.quota.count == 0)
        handler.working[0].respond(frame(b"too late"))


@on_both_loops
async def test_a_paused_connection_of_a_connected_peer_continues() -> None:
    handler = Handler()
    async with running_server(handler) as served:
        client = await served.connect()
        count = 3 * NORMAL_BYTES // 1_000
        sending = asyncio.create_task(client.send(frame(b"W") + frame(b"x" * 1_000) * count))
        await until_reading_is_paused(served)
        handler.working[0].respond(frame(b"done"))
        assert await client.receive() == b"done"
        for _ in range(count):
            assert await client.receive() == b"x" * 1_000
        await sending
        assert not served.server.watcher._callbacks


@on_both_loops
async def test_a_waiting_connection_that_is_closed_leaves_the_queue() -> None:
    handler = Handler()
    async with running_server(handler, network_config(max_connections=1)) as served:
        first = await served.connect()
        assert await first.send_request(b"first") == b"first"
        waiting = await served.connect()
        await waiting.send(frame(b"waits"))
        listener = served.server.listeners["PLAINTEXT"]
        await eventually(lambda: any(listener._waiting_connections.values()))
        waiting.close()
        await eventually(lambda: not listener._waiting_connections)
        assert handler.handled == [b"first"]


@on_both_loops
async def test_many_closes_after_parked_requests_release_all_descriptors() -> None:
    handler = Handler()
    async with running_server(handler) as served:
        first = await served.connect()
        assert await first.send_request(b"first") == b"first"
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(8):
            clients = [await served.connect() for _ in range(50)]
            for number, client in enumerate(clients):
                await client.send(frame(b"P" * 140_000) + frame(b"x") * number)
            await eventually(lambda: served.server.quota.count == 51)
            await eventually(lambda: len(handler.parked) - len(handler.abandoned) == 50)
            for client in clients:
                client.close()
            await eventually(lambda: served.server.quota.count == 1)
        assert len(handler.abandoned) == 400
        await eventually(lambda: len(os.listdir("/proc/self/fd")) <= before)
