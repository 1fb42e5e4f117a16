"""Hostile input at the socket level closes its own connection and affects nothing else."""

from __future__ import annotations

import asyncio
import logging
import struct
from functools import partial

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.loops.python_calls import count_python_calls
from tests.support.network.loopback_server import Client, RunningServer, echo, frame, running_server
from tests.support.waiting import eventually, remains
from tidelog.base.log_limit import LINES_MAX, PERIOD_MS
from tidelog.broker.logs.descriptor_budget import raise_open_file_limit
from tidelog.broker.network.receive_buffer import GRANT_BYTES
from tidelog.broker.network.request import Request
from tidelog.broker.network.turns import CALLBACKS_NS

MEBIBYTE = 1024 * 1024


def buffered_bytes(served: RunningServer) -> int:
    return sum(connection.core.buffer.capacity_bytes for connection in served.server.connections())


@on_both_loops
async def test_half_open_connections_do_not_affect_others() -> None:
    async with running_server() as served:
        silent = [await served.connect() for _ in range(50)]
        partial = [await served.connect() for _ in range(50)]
        for client in partial:
            await client.send(frame(b"never finished")[:7])
        good = await served.connect()
        for _ in range(20):
            assert await good.send_request(b"good") == b"good"
        for client in silent + partial:
            client.reset()
        await eventually(lambda: served.server.quota.count == 1)
        assert await good.send_request(b"good") == b"good"


@on_both_loops
async def test_half_open_and_slow_connections_have_little_effect_on_other_clients() -> None:
    """The work is measured in calls of functions: times depend on other work of the machine."""
    raise_open_file_limit()
    config = network_config(socket_listen_backlog_size=1_500)
    async with running_server(config=config) as served:
        good = [await served.connect() for _ in range(100)]

        async def serve_rounds() -> None:
            for _ in range(10):
                responses = await asyncio.gather(*(client.send_request(b"good") for client in good))
                assert responses == [b"good"] * len(good)

        alone = min([await count_python_calls(serve_rounds) for _ in range(3)])
        silent = [await served.connect() for _ in range(500)]
        slow = [await served.connect() for _ in range(500)]
        torn = frame(b"never finished")
        together = []
        for byte in torn[:3]:
            for client in slow:
                await client.send(bytes([byte]))
            together.append(await count_python_calls(serve_rounds))
        assert min(together) <= 1.5 * alone, (together, alone)
        for client in silent + slow:
            client.reset()
        await eventually(lambda: served.server.quota.count == len(good))


@on_both_loops
async def test_a_slow_sender_does_not_delay_others() -> None:
    async with running_server() as served:
        slow, good = await served.connect(), await served.connect()
        for byte in frame(b"drip"):
            await slow.send(bytes([byte]))
            assert await good.send_request(b"good") == b"good"
        assert await slow.receive() == b"drip"


@pytest.mark.parametrize("size", [-1, -(2**31), 1_001, 2**31 - 1])
@on_both_loops
async def test_an_invalid_frame_size_closes_its_connection_and_is_logged_once(
    size: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_server(config=network_config(socket_request_max_bytes=1_000)) as served:
        bad, good = await served.connect(), await served.connect()
        with caplog.at_level(logging.WARNING):
            await bad.send(struct.pack(">i", size) + bytes(5_000))
            assert await bad.is_closed()
        lines = [record.getMessage() for record in caplog.records if str(size) in record.getMessage()]
        assert len(lines) == 1
        assert bad.address in lines[0]
        assert await good.send_request(b"good") == b"good"


@on_both_loops
async def test_an_invalid_frame_size_read_in_a_later_turn_closes_its_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_server() as served:
        bad = await served.connect()
        (connection,) = served.server.connections()
        served.server.turns.spent_ns = CALLBACKS_NS + 1
        connection.get_buffer(-1)[:4] = struct.pack(">i", -1)
        connection.buffer_updated(4)
        connection.get_buffer(-1)[:4] = b"more"
        connection.buffer_updated(4)
        assert await bad.is_closed()
    (line,) = [record.getMessage() for record in caplog.records]
    assert "frame of -1 bytes" in line


@on_both_loops
async def test_many_invalid_connections_are_logged_in_few_lines_with_a_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    async with running_server(clock=clock) as served:
        with caplog.at_level(logging.WARNING):
            for _ in range(3 * LINES_MAX):
                bad = await served.connect()
                await bad.send(struct.pack(">i", -1))
                assert await bad.is_closed()
            assert len(caplog.records) == LINES_MAX
            clock.now_ms += PERIOD_MS
            served.server.log_limit.report()
        assert caplog.records[-1].getMessage().startswith(f"{2 * LINES_MAX} more messages were suppressed")


@on_both_loops
async def test_requests_before_an_invalid_frame_size_get_responses() -> None:
    async with running_server() as served:
        client = await served.connect()
        await client.send(frame(b"good") + struct.pack(">i", -5))
        assert await client.receive() == b"good"
        assert await client.is_closed()


@on_both_loops
async def test_announced_frame_sizes_allocate_no_more_memory_than_received() -> None:
    async with running_server() as served:
        clients = [await served.connect() for _ in range(200)]
        for client in clients:
            await client.send(struct.pack(">i", 100 * MEBIBYTE) + b"x" * 1_000)
        await eventually(lambda: served.server.counters.bytes_in == 200 * 1_004)
        assert buffered_bytes(served) <= 200 * (2 * 1_004 + GRANT_BYTES)
        good = await served.connect()
        assert await good.send_request(b"good") == b"good"


@on_both_loops
async def test_a_peer_that_never_reads_is_bounded_and_closed_when_idle() -> None:
    clock = ManualClock()
    response = frame(bytes(100_000))

    def handler(request: Request) -> None:
        request.respond(response)

    config = network_config(connections_max_idle_ms=60_000, socket_send_buffer_bytes=4_096)
    async with running_server(handler, config, clock=clock) as served:
        client = await served.connect(receive_buffer_bytes=4_096)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.writer.write(frame(b"more") * 5_000)
        (connection,) = served.server.connections()
        await eventually(lambda: connection.unsent_bytes > 200_000)
        await remains(lambda: connection.unsent_bytes <= 600_000, 0.1)
        served.server.sweep()
        clock.now_ms += 59_999
        served.server.sweep()
        clock.now_ms += 60_000
        served.server.sweep()
        await eventually(lambda: served.server.quota.count == 0)
        assert served.server.counters.connections_expired == 1


@on_both_loops
async def test_a_slow_reader_is_not_idle() -> None:
    clock = ManualClock()
    config = network_config(connections_max_idle_ms=1_000, socket_send_buffer_bytes=4_096)
    async with running_server(
        lambda request: request.respond(frame(bytes(2_000_000))), config, clock=clock
    ) as served:
        client = await served.connect(receive_buffer_bytes=4_096)
        await client.send(frame(b"big"))
        (connection,) = served.server.connections()
        await eventually(lambda: connection.unsent_bytes > 0)
        (size,) = struct.unpack(">i", await client.reader.readexactly(4))
        left = size
        while left:
            left -= len(await client.reader.readexactly(min(left, 200_000)))
            clock.now_ms += 900
            served.server.sweep()
        assert served.server.quota.count == 1


@on_both_loops
async def test_a_burst_of_connections_is_served_completely() -> None:
    async with running_server(config=network_config(socket_listen_backlog_size=512)) as served:

        async def exchange(number: int) -> bytes:
            client = await served.connect()
            response = await client.send_request(struct.pack(">i", number))
            client.close()
            return response

        responses = await asyncio.gather(*(exchange(number) for number in range(400)))
        assert responses == [struct.pack(">i", number) for number in range(400)]
        await eventually(lambda: served.server.quota.count == 0)


@on_both_loops
async def test_connection_resets_in_every_state_leave_nothing_allocated() -> None:
    parked: list[Request] = []

    def handler(request: Request) -> None:
        kind = bytes(request.frame)
        if kind == b"park":
            parked.append(request)
        elif kind == b"big":
            request.respond(frame(bytes(3_000_000)))
        else:
            echo(request)

    async with running_server(handler) as served:
        clients: list[Client] = []
        sent = (b"", frame(b"x")[:2], frame(b"park"), frame(b"big"), frame(b"big") * 5, frame(b"x"))
        for data in sent:
            client = await served.connect()
            await client.send(data)
            clients.append(client)
        await eventually(lambda: len(parked) == 1)
        await eventually(partial(has_received, served, sum(map(len, sent))))
        for client in clients:
            client.reset()
        await eventually(lambda: served.server.quota.count == 0)
        assert buffered_bytes(served) == 0


def has_received(served: RunningServer, count: int) -> bool:
    return served.server.counters.bytes_in >= count


@on_both_loops
async def test_the_global_request_memory_makes_requests_wait_in_order() -> None:
    parked: list[Request] = []
    config = network_config(queued_max_request_bytes=2_000)
    async with running_server(parked.append, config) as served:
        clients = [await served.connect() for _ in range(6)]
        for number, client in enumerate(clients):
            data = frame(bytes([number]) * 900)
            await client.send(data)
            received = (number + 1) * len(data)
            await eventually(partial(has_received, served, received))
        # Two requests fit in the budget; a third is admitted while some of the budget is left.
        await eventually(lambda: len(parked) == 3)
        await remains(lambda: len(parked) == 3, 0.01)
        order = []
        for _ in clients:
            await eventually(lambda: bool(parked))
            assert len(parked) <= 3
            request = parked.pop(0)
            order.append(request.frame[0])
            request.respond(frame(b"done"))
        assert order == list(range(6))
        for client in clients:
            assert await client.receive() == b"done"
        assert served.server.request_memory is not None
        assert served.server.request_memory.used_bytes == 0


@on_both_loops
async def test_a_disconnected_peer_releases_its_request_memory() -> None:
    config = network_config(queued_max_request_bytes=1_000)
    async with running_server(config=config) as served:
        hoarder = await served.connect()
        await hoarder.send(struct.pack(">i", 1_000_000) + b"x")
        await eventually(lambda: served.server.counters.bytes_in == 5)
        waiting = await served.connect()
        await waiting.send(frame(b"patient"))
        await eventually(partial(has_received, served, 5 + len(frame(b"patient"))))
        hoarder.reset()
        assert await waiting.receive() == b"patient"
