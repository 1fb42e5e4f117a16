"""Muted connections over real sockets: what waits, and what a closed connection leaves."""

from __future__ import annotations

import asyncio
import gc
from time import monotonic

from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import echo, frame, running_server
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.connection_core import State
from tidelog.broker.network.request import Request

LONG_MS = 600_000


def throttle_then_echo(request: Request) -> None:
    request.throttle(LONG_MS)
    echo(request)


@on_both_loops
async def test_the_response_of_a_throttled_request_is_sent_at_once_and_the_next_request_waits() -> None:
    def short(request: Request) -> None:
        request.throttle(50)
        echo(request)

    async with running_server(short) as served:
        client = await served.connect()
        began_s = monotonic()
        await client.send(frame(b"one") + frame(b"two"))
        assert await client.receive() == b"one"
        assert await client.receive() == b"two"
        assert monotonic() - began_s >= 0.04
        await eventually(lambda: served.server.counters.connections_throttled == 0)


@on_both_loops
async def test_a_throttled_connection_closed_by_the_client_is_removed() -> None:
    async with running_server(throttle_then_echo) as served:
        client = await served.connect()
        assert await client.send_request(b"one") == b"one"
        assert served.server.counters.connections_throttled == 1
        (connection,) = served.server.connections()
        assert connection.core.state is State.THROTTLED
        del connection
        gc.disable()
        try:
            client.close()
            await eventually(lambda: not list(served.server.connections()))
            assert served.server.counters.connections_throttled == 0
            await eventually(lambda: not any(isinstance(one, Connection) for one in gc.get_objects()))
        finally:
            gc.enable()


@on_both_loops
async def test_a_stopping_broker_closes_a_throttled_connection_at_once() -> None:
    async with running_server(throttle_then_echo) as served:
        client = await served.connect()
        assert await client.send_request(b"one") == b"one"
        async with asyncio.timeout(TIMEOUT_S):
            await served.server.close(timeout_s=LONG_MS / 1000)
        assert await client.is_closed()


@on_both_loops
async def test_a_throttled_client_that_sends_more_than_the_buffer_holds_is_not_read() -> None:
    async with running_server(throttle_then_echo) as served:
        client = await served.connect()
        assert await client.send_request(b"one") == b"one"
        (connection,) = served.server.connections()
        client.writer.write(frame(bytes(10_000)) * 2_000)
        await eventually(lambda: connection.core.buffer.is_full)
        assert connection.core.buffer.capacity_bytes < 1_000_000
        client.reset()
        await eventually(lambda: not list(served.server.connections()))
