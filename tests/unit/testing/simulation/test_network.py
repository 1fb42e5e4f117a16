"""The simulated network: order of bytes, cuts, resets, and machines without power."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

import pytest

from tidelog.testing.simulation.network import Network
from tidelog.testing.simulation.process import Machine, Process
from tidelog.testing.simulation.scheduler import SECOND, Scheduler

EVENTS_MAX = 1_000_000
PORT = 9092
ResultT = TypeVar("ResultT")
NEAR, FAR = "10.0.0.1", "10.0.0.2"


class Pair:
    """A process that listens and returns each byte, and a process that connects to it."""

    def __init__(self, seed: int = 1) -> None:
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler)
        self.near = Machine(self.network, "near", NEAR)
        self.far = Machine(self.network, "far", FAR)
        self.client: Process = self.near.start_process()
        self.received_by_server = bytearray()
        self.accepted_count = 0
        self.listen()

    def listen(self) -> None:
        """Accept connections in a new process of the far machine."""
        process = self.far.start_process()
        listening = process.sockets.bind("test", "", PORT, -1)
        listening.listen(8)

        def accept() -> None:
            accepted, _ = listening.accept()
            self.accepted_count += 1
            process.start(process.loop.connect_accepted_socket(lambda: Echo(self), accepted))

        process.loop.add_reader(listening.fileno(), accept)

    def run(self, work: Coroutine[Any, Any, ResultT], timeout_s: float = 60.0) -> ResultT:
        """Run a coroutine in the client, and return its result."""
        task = self.client.start(work)
        deadline_ns = self.scheduler.now_ns + int(timeout_s * SECOND)
        assert self.scheduler.run_until(task.done, deadline_ns, EVENTS_MAX), "the client still waits"
        return task.result()


class Echo(asyncio.Protocol):
    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._pair.received_by_server += data
        self._transport.write(data)


async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(lambda: protocol, FAR, PORT)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


async def echo(data: bytes) -> bytes:
    reader, writer = await connect()
    writer.write(data)
    try:
        return await reader.readexactly(len(data))
    finally:
        writer.close()


def test_bytes_arrive_in_order_and_as_often_as_sent() -> None:
    data = bytes(range(256)) * 8_000  # more than the window
    for seed in range(3):
        assert Pair(seed).run(echo(data)) == data


def test_a_connection_to_a_port_without_listener_is_refused() -> None:
    pair = Pair()

    async def connect_elsewhere() -> None:
        with pytest.raises(ConnectionRefusedError):
            await asyncio.get_running_loop().create_connection(asyncio.Protocol, FAR, PORT + 1)

    pair.run(connect_elsewhere())


def test_a_connection_over_a_cut_link_waits_until_the_cut_ends() -> None:
    pair = Pair()
    pair.network.cut([NEAR], [FAR])
    pair.scheduler.after(5 * SECOND, pair.network.heal)

    async def connect_late() -> float:
        await connect()
        return asyncio.get_running_loop().time()

    assert 5 <= pair.run(connect_late()) < 6


def test_bytes_of_a_cut_direction_arrive_after_the_cut_and_the_other_direction_works() -> None:
    pair = Pair()

    async def send_over_a_cut() -> tuple[bytes, float]:
        reader, writer = await connect()
        pair.network.cut([FAR], [NEAR])
        pair.scheduler.after(3 * SECOND, pair.network.heal)
        writer.write(b"tide")
        return await reader.readexactly(4), asyncio.get_running_loop().time()

    echoed, now_s = pair.run(send_over_a_cut())
    assert echoed == b"tide"
    assert 3 <= now_s < 4


def test_a_killed_process_resets_its_connections() -> None:
    pair = Pair()

    async def wait_for_a_killed_peer() -> None:
        reader, _ = await connect()
        pair.far.kill_process()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)

    pair.run(wait_for_a_killed_peer())


def test_a_machine_without_power_is_silent_and_resets_connections_when_it_is_on_again() -> None:
    pair = Pair()

    async def write_to_a_machine_without_power() -> float:
        reader, writer = await connect()
        pair.far.fail_power()
        pair.scheduler.after(10 * SECOND, pair.listen)
        writer.write(b"lost")
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        return asyncio.get_running_loop().time()

    assert 10 <= pair.run(write_to_a_machine_without_power()) < 11


def test_a_broken_connection_delivers_a_prefix_of_what_was_sent() -> None:
    data = bytes(range(256)) * 100
    lengths = set()
    for seed in range(20):
        pair = Pair(seed)

        async def send_and_break(pair: Pair = pair) -> None:
            reader, writer = await connect()
            writer.write(data)
            await asyncio.sleep(0)
            pair.network.reset_connection()
            with pytest.raises(ConnectionResetError):
                while True:
                    await reader.read(1_000)

        pair.run(send_and_break())
        assert data.startswith(bytes(pair.received_by_server))
        lengths.add(len(pair.received_by_server))
    assert len(lengths) > 3, "the position of the break does not vary"


def test_a_writer_is_paused_while_the_peer_does_not_read() -> None:
    pair = Pair()

    async def fill() -> bool:
        loop = asyncio.get_running_loop()
        paused: asyncio.Future[bool] = loop.create_future()

        class Writer(asyncio.Protocol):
            def pause_writing(self) -> None:
                paused.set_result(True)

        transport, _ = await loop.create_connection(Writer, FAR, PORT)
        pair.far.process.pause()
        for _ in range(40):
            transport.write(bytes(10_000))
        return await paused

    assert pair.run(fill())


def test_a_connection_that_arrives_twice_is_accepted_twice_and_used_once() -> None:
    pair = Pair()
    pair.network.duplicate_connections(1)
    assert pair.run(echo(b"tide")) == b"tide"
    assert pair.received_by_server == b"tide"
    assert pair.accepted_count == 2
    assert pair.run(echo(b"ebb")) == b"ebb"
    assert pair.accepted_count == 3
    pair.scheduler.run_until(lambda: False, 60 * SECOND, EVENTS_MAX)
    assert not pair.network.endpoints
