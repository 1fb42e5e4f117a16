"""A closed connection leaves no reference cycle."""

from __future__ import annotations

import gc

import pytest

from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import echo, running_server
from tests.support.security.tls_listener import context_that_trusts, tls_server
from tests.support.waiting import eventually
from tidelog.broker.network.connection import Connection


def connections_in_memory() -> int:
    return sum(isinstance(each, Connection) for each in gc.get_objects())


@pytest.mark.parametrize("has_tls", [False, True])
@on_both_loops
async def test_closed_connections_are_freed_without_the_garbage_collector(has_tls: bool) -> None:
    server_tls, client_tls = (tls_server(), context_that_trusts()) if has_tls else (None, None)
    gc.collect()
    before = connections_in_memory()
    gc.disable()
    try:
        async with running_server(echo, tls=server_tls) as served:
            for _ in range(5):
                client = await served.connect(tls=client_tls)
                assert await client.send_request(b"one") == b"one"
                client.writer.close()
                await client.writer.wait_closed()
                await eventually(lambda: not list(served.server.connections()))
            await eventually(lambda: connections_in_memory() == before)
    finally:
        gc.enable()
