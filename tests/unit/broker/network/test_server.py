"""Listeners, limits on real sockets, idle connections and shutdown."""

from __future__ import annotations

import asyncio
import logging
import socket

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import listener_config, network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import RunningServer, echo, frame, running_server
from tests.support.waiting import eventually
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import NetworkServer


@on_both_loops
async def test_several_listeners_have_their_own_ports_names_and_handlers() -> None:
    server = NetworkServer(network_config())

    def respond_with_name(request: Request) -> None:
        request.respond(frame(request.listener.encode()))

    server.bind(listener_config(name="PLAINTEXT", host="127.0.0.1", port=0), echo)
    server.bind(listener_config(name="INTERNAL", host="", port=0), respond_with_name)
    assert server.port("PLAINTEXT") not in (0, server.port("INTERNAL"))
    await server.start()
    for name, expected in (("PLAINTEXT", b"hello"), ("INTERNAL", b"INTERNAL")):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port(name))
        writer.write(frame(b"hello"))
        assert await reader.readexactly(4 + len(expected)) == frame(expected)
        writer.close()
    await server.close()


@on_both_loops
async def test_a_listener_on_all_addresses_shows_ipv4_peers_as_ipv4() -> None:
    peers: list[str] = []

    def handler(request: Request) -> None:
        peers.append(request.peer)
        request.respond(frame(b""))

    server = NetworkServer(network_config(max_connections_per_ip_overrides={"127.0.0.1": 1}))
    server.bind(listener_config(name="PLAINTEXT", host="", port=0), handler)
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
    writer.write(frame(b""))
    await reader.readexactly(4)
    assert peers == [f"127.0.0.1:{writer.get_extra_info('sockname')[1]}"]
    second, _ = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
    assert await second.read() == b""
    writer.close()
    await server.close()


@on_both_loops
async def test_a_port_in_use_is_named_in_the_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = NetworkServer(network_config())
        with pytest.raises(OSError, match=rf"Listener PLAINTEXT cannot bind to 127.0.0.1:{port}"):
            server.bind(listener_config(name="PLAINTEXT", host="127.0.0.1", port=port), echo)
    await server.close()


@on_both_loops
async def test_the_port_is_known_after_bind_and_serves_after_start() -> None:
    server = NetworkServer(network_config())
    server.bind(listener_config(name="PLAINTEXT", host="127.0.0.1", port=0), echo)
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
    await server.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port("PLAINTEXT"))
    writer.write(frame(b"x"))
    assert await reader.readexactly(5) == frame(b"x")
    writer.close()
    await server.close()


@on_both_loops
async def test_connections_over_the_address_limit_are_closed_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server(config=network_config(max_connections_per_ip=2)) as served:
        first, second = await served.connect(), await served.connect()
        assert await first.send_request(b"1") == b"1"
        assert await second.send_request(b"2") == b"2"
        with caplog.at_level(logging.WARNING):
            third = await served.connect()
            assert await third.is_closed()
        assert [third.address in record.getMessage() for record in caplog.records] == [True]
        assert served.server.counters.connections_refused == 1
        first.close()
        await eventually(lambda: served.server.quota.count == 1)
        fourth = await served.connect()
        assert await fourth.send_request(b"4") == b"4"


@on_both_loops
async def test_connections_over_the_broker_and_listener_limits_wait_until_another_one_ends() -> None:
    for config, listener_limit in ((network_config(max_connections=1), None), (network_config(), 1)):
        async with running_server(config=config, max_connections=listener_limit) as served:
            first = await served.connect()
            assert await first.send_request(b"1") == b"1"
            second, third = await served.connect(), await served.connect()
            await second.send(frame(b"2a") + frame(b"2b"))
            await third.send(frame(b"3"))
            response = asyncio.ensure_future(second.receive())
            assert await first.send_request(b"still") == b"still"
            assert not response.done()
            assert served.server.quota.count == 1
            first.close()
            assert await response == b"2a"
            assert await second.receive() == b"2b"
            second.close()
            assert await third.receive() == b"3"


@on_both_loops
async def test_waiting_connections_are_limited_by_the_backlog(caplog: pytest.LogCaptureFixture) -> None:
    config = network_config(max_connections=1, socket_listen_backlog_size=2)
    async with running_server(config=config) as served:
        first = await served.connect()
        assert await first.send_request(b"1") == b"1"
        waiting = [await served.connect() for _ in range(2)]
        with caplog.at_level(logging.WARNING):
            refused = await served.connect()
            assert await refused.is_closed()
        assert refused.address in caplog.records[-1].getMessage()
        waiting[0].reset()
        await eventually(lambda: sum(served.server.quota._per_address.values()) == 2)
        late = await served.connect()
        first.close()
        assert await waiting[1].send_request(b"2") == b"2"
        waiting[1].close()
        assert await late.send_request(b"3") == b"3"


@on_both_loops
async def test_an_inter_broker_connection_replaces_the_longest_idle_one() -> None:
    clock = ManualClock()
    server = NetworkServer(network_config(max_connections=2, inter_broker_listener="BROKERS"), clock=clock)
    for name in ("CLIENTS", "BROKERS"):
        server.bind(listener_config(name=name, host="127.0.0.1", port=0), echo)
    await server.start()
    clients = [RunningServer(server, server.port(name)) for name in ("CLIENTS", "BROKERS")]
    idle = await clients[0].connect()
    assert await idle.send_request(b"1") == b"1"
    server.sweep()
    clock.now_ms += 1_000
    busy = await clients[0].connect()
    assert await busy.send_request(b"2") == b"2"
    server.sweep()
    broker = await clients[1].connect()
    assert await broker.send_request(b"3") == b"3"
    assert await idle.is_closed()
    assert await busy.send_request(b"4") == b"4"
    await eventually(lambda: server.quota.count == 2)
    for each in clients:
        each.close_connections()
    await server.close(timeout_s=0.2)


@on_both_loops
async def test_changed_limits_accept_waiting_connections_and_close_those_above_the_limit() -> None:
    async with running_server(config=network_config(max_connections=1)) as served:
        first = await served.connect()
        assert await first.send_request(b"1") == b"1"
        second = await served.connect()
        await second.send(frame(b"2"))
        served.server.update_limits(network_config(max_connections=5), {})
        assert await second.receive() == b"2"
        served.server.update_limits(network_config(max_connections=1), {})
        await eventually(lambda: served.server.quota.count == 1)
        served.server.update_limits(network_config(), {"PLAINTEXT": 1})
        third = await served.connect()
        await third.send(frame(b"3"))
        await served.connect()
        for one in (first, second):
            one.close()
        assert await third.receive() == b"3"


@on_both_loops
async def test_a_waiting_connection_is_refused_at_shutdown() -> None:
    async with running_server(config=network_config(max_connections=1)) as served:
        first = await served.connect()
        assert await first.send_request(b"1") == b"1"
        second = await served.connect()
        await second.send(frame(b"2"))
        await served.server.close(timeout_s=0.2)
        assert await second.is_closed()
        assert not served.server.quota._per_address


@on_both_loops
async def test_idle_connections_are_closed_and_active_ones_are_not() -> None:
    clock = ManualClock()
    config = network_config(connections_max_idle_ms=1_000)
    async with running_server(config=config, clock=clock) as served:
        idle, talking = [await served.connect() for _ in range(2)]
        for _ in range(4):
            assert await talking.send_request(b"x") == b"x"
            clock.now_ms += 500
            served.server.sweep()
        assert await idle.is_closed()
        await eventually(lambda: served.server.quota.count == 1)
        assert served.server.counters.connections_expired == 1


@on_both_loops
async def test_a_connection_that_only_waits_for_a_parked_request_is_idle() -> None:
    clock = ManualClock()
    abandoned: list[Request] = []

    def park(request: Request) -> None:
        request.on_abandoned = abandoned.append

    async with running_server(park, network_config(connections_max_idle_ms=1_000), clock=clock) as served:
        waiting = await served.connect()
        await waiting.send(frame(b"park"))
        (connection,) = served.server.connections()
        await eventually(lambda: connection.core.lacks_responses)
        for _ in range(3):
            assert not abandoned
            served.server.sweep()
            clock.now_ms += 500
        assert await waiting.is_closed()
        assert len(abandoned) == 1
        assert served.server.counters.connections_expired == 1


@on_both_loops
async def test_idle_connections_are_checked_periodically() -> None:
    async with running_server(config=network_config(connections_max_idle_ms=40)) as served:
        client = await served.connect()
        assert await client.is_closed()


@on_both_loops
async def test_without_an_idle_limit_no_connection_is_closed() -> None:
    clock = ManualClock()
    async with running_server(config=network_config(connections_max_idle_ms=-1), clock=clock) as served:
        client = await served.connect()
        assert await client.send_request(b"x") == b"x"
        for _ in range(3):
            clock.now_ms += 10**9
            served.server.sweep()
        assert await client.send_request(b"y") == b"y"


@on_both_loops
async def test_an_idle_connection_holds_no_receive_buffer() -> None:
    async with running_server() as served:
        client = await served.connect()
        await client.send_request(bytes(300_000))
        (connection,) = served.server.connections()
        assert connection.core.buffer.capacity_bytes > 0
        served.server.sweep()
        served.server.sweep()
        assert connection.core.buffer.capacity_bytes == 0
        assert await client.send_request(b"again") == b"again"


@on_both_loops
async def test_shutdown_waits_for_active_requests_and_accepts_no_new_ones() -> None:
    parked: list[Request] = []
    async with running_server(parked.append) as served:
        busy, idle = await served.connect(), await served.connect()
        await busy.send(frame(b"first") + frame(b"second"))
        await eventually(lambda: len(parked) == 1)
        closing = asyncio.create_task(served.server.close(timeout_s=10))
        assert await idle.is_closed()
        with pytest.raises(ConnectionError):
            await served.connect()
        assert not closing.done()
        parked[0].respond(frame(b"done"))
        assert await busy.receive() == b"done"
        assert await busy.is_closed()
        await closing
        assert len(parked) == 1


@on_both_loops
async def test_shutdown_ends_at_its_deadline() -> None:
    parked: list[Request] = []
    async with running_server(parked.append) as served:
        client = await served.connect()
        await client.send(frame(b"for ever"))
        await eventually(lambda: len(parked) == 1)
        await served.server.close(timeout_s=0.05)
        assert await client.is_closed()
        assert served.server.quota.count == 0
        parked[0].respond(frame(b"too late"))


@on_both_loops
async def test_shutdown_sends_a_large_response_completely() -> None:
    response = frame(bytes(range(256)) * 20_000)
    config = network_config(socket_send_buffer_bytes=8_192)
    async with running_server(lambda request: request.respond(response), config) as served:
        client = await served.connect(receive_buffer_bytes=8_192)
        await client.send(frame(b"big"))
        (connection,) = served.server.connections()
        await eventually(lambda: connection.unsent_bytes > 0)
        closing = asyncio.create_task(served.server.close(timeout_s=10))
        assert frame(await client.receive()) == response
        await closing
