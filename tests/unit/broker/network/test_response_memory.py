"""The memory of unread responses is bounded over all connections."""

from __future__ import annotations

from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import Client, RunningServer, frame, running_server
from tests.support.waiting import eventually
from tidelog.broker.network.request import Request

MIB = 1024 * 1024


def large_or_small(request: Request) -> None:
    size = int.from_bytes(request.frame, "big")
    request.respond((frame(bytes(size)),))


async def connect_without_reading(served: RunningServer, size: int) -> Client:
    """Connect a client that requests `size` bytes and does not read them."""
    client = await served.connect(receive_buffer_bytes=4_096)
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    await client.send(frame(size.to_bytes(4, "big")))
    return client


@on_both_loops
async def test_above_the_limit_connections_with_the_largest_unread_responses_are_closed() -> None:
    config = network_config(max_unsent_response_bytes=16 * MIB, socket_send_buffer_bytes=4_096)
    async with running_server(large_or_small, config) as served:
        memory = served.server.response_memory
        small = [await connect_without_reading(served, MIB) for _ in range(4)]
        await eventually(lambda: len(memory._connections) == 4)
        for _ in range(10):
            await connect_without_reading(served, 7 * MIB)
        await eventually(lambda: served.server.counters.connections_closed == 9)
        assert served.server.quota.count == 5
        assert memory.used_bytes <= 16 * MIB
        assert sum(connection.unsent_bytes for connection in served.server.connections()) <= 16 * MIB
        for client in small:
            client.writer.transport.resume_reading()  # type: ignore[attr-defined]
            assert len(await client.receive()) == MIB
        await eventually(lambda: len(memory._connections) == 1)


@on_both_loops
async def test_read_responses_release_their_memory() -> None:
    config = network_config(max_unsent_response_bytes=16 * MIB)
    async with running_server(large_or_small, config) as served:
        client = await served.connect(limit=8 * MIB)
        for _ in range(5):
            assert len(await client.send_request((6 * MIB).to_bytes(4, "big"))) == 6 * MIB
        await eventually(lambda: served.server.response_memory.used_bytes == 0)
        client.close()
        await eventually(lambda: served.server.quota.count == 0)


@on_both_loops
async def test_an_unread_response_of_a_disconnected_client_releases_its_memory() -> None:
    config = network_config(socket_send_buffer_bytes=4_096)
    async with running_server(large_or_small, config) as served:
        client = await connect_without_reading(served, 6 * MIB)
        await eventually(lambda: served.server.response_memory.used_bytes > 5 * MIB)
        client.reset()
        await eventually(lambda: served.server.response_memory.used_bytes == 0)
