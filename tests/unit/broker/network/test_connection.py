"""One request in flight, responses in order, valid bodies, and bounded time slices."""

from __future__ import annotations

import asyncio
import struct
import weakref

from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import echo, frame, running_server
from tests.support.waiting import eventually, remains
from tidelog.broker.network.receive_buffer import FIRST_BYTES
from tidelog.broker.network.request import Request


class ParkingHandler:
    """A handler that keeps requests until the test responds to them."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> None:
        self.requests.append(request)

    def respond_to(self, index: int = 0) -> None:
        request = self.requests.pop(index)
        request.respond(frame(bytes(request.frame)))


@on_both_loops
async def test_a_response_is_sent_on_the_connection_of_its_request() -> None:
    async with running_server() as served:
        first, second = await served.connect(), await served.connect()
        assert await first.send_request(b"one") == b"one"
        assert await second.send_request(b"two") == b"two"
        assert await first.send_request(b"") == b""


@on_both_loops
async def test_ten_thousand_pipelined_requests_get_responses_in_order() -> None:
    async with running_server() as served:
        client = await served.connect()
        bodies = [struct.pack(">i", number) * 3 for number in range(10_000)]
        sending = asyncio.create_task(client.send(b"".join(map(frame, bodies))))
        assert [await client.receive() for _ in bodies] == bodies
        await sending


@on_both_loops
async def test_pipelined_requests_are_handled_one_at_a_time() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        await client.send(frame(b"a") + frame(b"b") + frame(b"c"))
        for body in (b"a", b"b", b"c"):
            await eventually(lambda: len(parking.requests) == 1)
            assert bytes(parking.requests[0].frame) == body
            parking.respond_to()
            assert await client.receive() == body
        assert not parking.requests


@on_both_loops
async def test_immediate_late_and_absent_responses_keep_their_order() -> None:
    loop = asyncio.get_running_loop()

    def handle(request: Request) -> None:
        body = bytes(request.frame)
        number = body[0]
        if number % 3 == 0:
            request.respond(None)
        elif number % 3 == 1:
            request.respond(frame(body))
        else:
            loop.call_soon(request.respond, frame(body))

    async with running_server(handle) as served:
        client = await served.connect()
        await client.send(b"".join(frame(bytes([number])) for number in range(200)))
        expected = [bytes([number]) for number in range(200) if number % 3]
        assert [await client.receive() for _ in expected] == expected


@on_both_loops
async def test_a_slow_handler_does_not_delay_other_connections() -> None:
    parked: list[Request] = []

    def handler(request: Request) -> None:
        if bytes(request.frame) == b"slow":
            parked.append(request)
        else:
            echo(request)

    async with running_server(handler) as served:
        slow, quick = await served.connect(), await served.connect()
        await slow.send(frame(b"slow") + frame(b"after"))
        await eventually(lambda: bool(parked))
        for _ in range(50):
            assert await quick.send_request(b"quick") == b"quick"
        parked[0].respond(frame(b"done"))
        assert await slow.receive() == b"done"
        assert await slow.receive() == b"after"


@on_both_loops
async def test_a_connection_with_many_requests_does_not_delay_others() -> None:
    handled: list[bytes] = []

    def slow_work(request: Request) -> None:
        ends = served.server.clock.monotonic_ns() + 200_000
        while served.server.clock.monotonic_ns() < ends:
            pass
        handled.append(bytes(request.frame))
        echo(request)

    async with running_server(slow_work) as served:
        flood, other = await served.connect(), await served.connect()
        await flood.send(frame(b"f") * 2_000)
        await eventually(lambda: len(handled) > 10)
        assert await other.send_request(b"o") == b"o"
        assert handled.index(b"o") < 1_000


@on_both_loops
async def test_a_request_received_byte_by_byte_is_handled() -> None:
    async with running_server() as served:
        client = await served.connect()
        for byte in frame(b"slowly") + frame(b""):
            await client.send(bytes([byte]))
            await asyncio.sleep(0)
        assert await client.receive() == b"slowly"
        assert await client.receive() == b""


@on_both_loops
async def test_frames_of_all_sizes_are_received() -> None:
    async with running_server() as served:
        client = await served.connect(limit=2**23)
        for size in (0, 1, 8_187, 8_188, 8_189, 65_536, 131_068, 131_072, 1_000_000, 5_000_000, 3):
            body = size.to_bytes(4, "big") * (size // 4 + 1)
            sending = asyncio.create_task(client.send(frame(body)))
            assert await client.receive() == body
            await sending


@on_both_loops
async def test_a_body_stays_valid_until_the_response_while_more_is_received() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        body = bytes(range(256)) * 8
        more = b"".join(frame(bytes([number]) * 997) for number in range(100))
        await client.send(frame(body) + more[:3_000])
        await eventually(lambda: bool(parking.requests))
        request = parking.requests[0]
        request.frame[0] = 77
        received = served.server.counters.bytes_in
        sending = asyncio.create_task(client.send(more[3_000:]))
        await eventually(lambda: served.server.counters.bytes_in > received)
        assert bytes(request.frame) == b"M" + body[1:]
        parking.respond_to()
        await client.receive()
        for number in range(100):
            await eventually(lambda: bool(parking.requests))
            assert bytes(parking.requests[0].frame) == bytes([number]) * 997
            parking.respond_to()
            await client.receive()
        await sending


@on_both_loops
async def test_a_muted_connection_stops_reading_when_its_buffer_is_full() -> None:
    parking = ParkingHandler()
    async with running_server(parking, network_config(socket_receive_buffer_bytes=4_096)) as served:
        client = await served.connect()
        await client.send(frame(b"first"))
        await eventually(lambda: bool(parking.requests))
        sending = asyncio.create_task(client.send(b"".join([frame(b"x" * 1_000)] * 20_000)))
        await remains(lambda: served.server.counters.bytes_in <= 200_000 and not sending.done(), 0.05)
        parking.respond_to()
        await client.receive()
        sending.cancel()


@on_both_loops
async def test_responses_sent_during_another_connections_request_do_not_nest() -> None:
    depth, deepest = 0, 0
    parked: list[Request] = []

    def handler(request: Request) -> None:
        nonlocal depth, deepest
        depth += 1
        deepest = max(deepest, depth)
        if bytes(request.frame) == b"wait":
            parked.append(request)
        else:
            while parked:
                parked.pop().respond(frame(b"woken"))
            echo(request)
        depth -= 1

    async with running_server(handler) as served:
        waiting = [await served.connect() for _ in range(5)]
        for client in waiting:
            await client.send(frame(b"wait") + frame(b"next"))
        await eventually(lambda: len(parked) == 5)
        other = await served.connect()
        assert await other.send_request(b"wake") == b"wake"
        for client in waiting:
            assert await client.receive() == b"woken"
            assert await client.receive() == b"next"
        assert deepest == 1


@on_both_loops
async def test_requests_sent_before_a_half_close_are_handled() -> None:
    received: list[bytes] = []

    def ignore(request: Request) -> None:
        received.append(bytes(request.frame))
        asyncio.get_running_loop().call_soon(request.respond, None)

    async with running_server(ignore) as served:
        client = await served.connect()
        client.writer.write(b"".join(frame(bytes([number])) for number in range(100)))
        client.writer.write_eof()
        await eventually(lambda: len(received) == 100)
        assert await client.is_closed()
        await eventually(lambda: served.server.quota.count == 0)


@on_both_loops
async def test_a_response_to_a_disconnected_peer_is_discarded() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        await client.send(frame(b"x"))
        await eventually(lambda: bool(parking.requests))
        client.reset()
        await eventually(lambda: served.server.quota.count == 0)
        request = parking.requests[0]
        assert not request.is_open
        parking.respond_to()
        assert served.server.quota.count == 0


@on_both_loops
async def test_closing_a_request_closes_its_connection_after_earlier_responses() -> None:
    def handler(request: Request) -> None:
        if bytes(request.frame) == b"bad":
            request.close("bad request")
        else:
            echo(request)

    async with running_server(handler) as served:
        client, other = await served.connect(), await served.connect()
        await client.send(frame(b"good") + frame(b"bad") + frame(b"never"))
        assert await client.receive() == b"good"
        assert await client.is_closed()
        assert await other.send_request(b"still here") == b"still here"


@on_both_loops
async def test_parked_requests_with_large_frames_hold_little_memory() -> None:
    parking = ParkingHandler()

    def park(request: Request) -> None:
        parking(request)
        request.release_frame()

    def buffered_bytes() -> int:
        return sum(connection.core.buffer.capacity_bytes for connection in served.server.connections())

    async with running_server(park) as served:
        clients = [await served.connect() for _ in range(5)]
        for client in clients:
            await client.send(frame(bytes(2_000_000)) + frame(b"behind"))
        await eventually(lambda: len(parking.requests) == 5)
        await eventually(lambda: buffered_bytes() <= 5 * 2 * FIRST_BYTES)
        for request in list(parking.requests):
            request.respond(frame(b"late"))
        for client in clients:
            assert await client.receive() == b"late"
        await eventually(lambda: len(parking.requests) == 10)


@on_both_loops
async def test_a_closed_connection_releases_its_parked_request() -> None:
    requests: list[weakref.ref[Request]] = []

    def park(request: Request) -> None:
        requests.append(weakref.ref(request))
        request.on_abandoned = abandoned.append
        request.release_frame()

    abandoned: list[Request] = []
    async with running_server(park) as served:
        client = await served.connect()
        await client.send(frame(bytes(1_000_000)))
        await eventually(lambda: bool(requests))
        client.close()
        await eventually(lambda: bool(abandoned))
        assert (len(abandoned[0].frame), len(abandoned[0].body)) == (0, 0)
        abandoned.clear()
        await eventually(lambda: requests[0]() is None)
