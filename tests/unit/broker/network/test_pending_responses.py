"""Only Produce requests are handled during a parked Produce; responses keep the order of the requests."""

from __future__ import annotations

import asyncio

from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import echo, frame, running_server
from tests.support.waiting import eventually, remains
from tidelog.broker.network.pending_responses import PENDING_RESPONSES_MAX
from tidelog.broker.network.request import Request

PRODUCE = b"\0\0"
FETCH = b"\0\1"


class ParkingHandler:
    """Parks every Produce until the test responds to it, and responds to other requests at once."""

    def __init__(self) -> None:
        self.parked: list[tuple[Request, bytes]] = []
        self.abandoned: list[bytes] = []
        self.others: list[bytes] = []

    def __call__(self, request: Request) -> None:
        body = bytes(request.frame)
        if not body.startswith(PRODUCE):
            self.others.append(body)
            echo(request)
            return
        request.on_abandoned = lambda _: self.abandoned.append(body)
        self.parked.append((request, body))
        request.park()

    def respond_to(self, index: int = 0) -> None:
        request, body = self.parked.pop(index)
        assert request.is_open
        request.respond(frame(body))
        assert not request.is_open


def produces(*numbers: int) -> list[bytes]:
    return [PRODUCE + bytes([number]) for number in numbers]


def join_frames(bodies: list[bytes]) -> bytes:
    return b"".join(map(frame, bodies))


@on_both_loops
async def test_a_produce_is_handled_during_a_parked_produce_and_its_response_follows() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        bodies = produces(1, 2, 3)
        await client.send(join_frames(bodies))
        await eventually(lambda: len(parking.parked) == 3)
        assert [body for _, body in parking.parked] == bodies
        parking.respond_to(2)
        parking.respond_to(1)
        await asyncio.sleep(0)
        assert served.server.bytes_out() == 0
        parking.respond_to(0)
        assert [await client.receive() for _ in bodies] == bodies


@on_both_loops
async def test_the_buffer_of_a_parked_request_is_used_for_the_next() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        for number in range(PENDING_RESPONSES_MAX):
            await client.send(frame(PRODUCE + bytes([number]) * 100_000))
        await eventually(lambda: len(parking.parked) == PENDING_RESPONSES_MAX)
        assert not any(len(request.frame) or len(request.body) for request, _ in parking.parked)
        for number in range(PENDING_RESPONSES_MAX):
            parking.respond_to()
            assert await client.receive() == PRODUCE + bytes([number]) * 100_000


@on_both_loops
async def test_all_requests_but_produce_wait_for_pending_responses() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        before, after = produces(1, 2), produces(3)
        await client.send(join_frames([*before, FETCH, *after]))
        await eventually(lambda: len(parking.parked) == 2)
        parking.respond_to(1)
        await remains(lambda: not parking.others, 0.01)
        parking.respond_to(0)
        assert [await client.receive() for _ in range(3)] == [*before, FETCH]
        await eventually(lambda: len(parking.parked) == 1)
        parking.respond_to()
        assert await client.receive() == after[0]


@on_both_loops
async def test_the_number_of_pending_responses_is_limited() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        bodies = produces(*range(PENDING_RESPONSES_MAX + 10))
        await client.send(join_frames(bodies))
        await eventually(lambda: len(parking.parked) == PENDING_RESPONSES_MAX)
        await remains(lambda: len(parking.parked) == PENDING_RESPONSES_MAX, 0.01)
        for body in bodies:
            await eventually(lambda: bool(parking.parked))
            parking.respond_to()
            assert await client.receive() == body


@on_both_loops
async def test_a_connection_at_its_limit_stops_reading_when_its_buffer_is_full() -> None:
    parking = ParkingHandler()
    async with running_server(parking, network_config(socket_receive_buffer_bytes=4_096)) as served:
        client = await served.connect()
        await client.send(join_frames([*produces(1), FETCH]))
        await eventually(lambda: len(parking.parked) == 1)
        sending = asyncio.create_task(client.send(frame(FETCH + b"x" * 1_000) * 20_000))
        await remains(lambda: served.server.counters.bytes_in <= 200_000 and not sending.done(), 0.05)
        parking.respond_to()
        assert await client.receive() == produces(1)[0]
        assert await client.receive() == FETCH
        sending.cancel()


@on_both_loops
async def test_a_disconnect_abandons_every_parked_request() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        bodies = produces(1, 2, 3)
        await client.send(join_frames(bodies))
        await eventually(lambda: len(parking.parked) == 3)
        parking.respond_to(1)
        client.reset()
        await eventually(lambda: served.server.quota.count == 0)
        assert parking.abandoned == [bodies[0], bodies[2]]
        for request, body in parking.parked:
            assert not request.is_open
            request.respond(frame(body))


@on_both_loops
async def test_a_parked_request_that_is_refused_closes_the_connection() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        await client.send(join_frames(produces(1, 2)))
        await eventually(lambda: len(parking.parked) == 2)
        parking.parked[1][0].close("no response is possible")
        assert await client.is_closed()


@on_both_loops
async def test_a_closing_server_waits_for_pending_responses() -> None:
    parking = ParkingHandler()
    async with running_server(parking) as served:
        client = await served.connect()
        bodies = produces(1, 2)
        await client.send(join_frames(bodies))
        await eventually(lambda: len(parking.parked) == 2)
        closing = asyncio.create_task(served.server.close())
        await remains(lambda: not closing.done(), 0.01)
        parking.respond_to()
        parking.respond_to()
        assert [await client.receive() for _ in bodies] == bodies
        await closing
        assert await client.is_closed()


@on_both_loops
async def test_pending_responses_are_sent_during_work_on_a_later_request() -> None:
    parking = ParkingHandler()
    in_hand: list[Request] = []

    def handler(request: Request) -> None:
        if bytes(request.frame) == PRODUCE:
            in_hand.append(request)
        else:
            parking(request)

    async with running_server(handler) as served:
        client = await served.connect()
        first = produces(1)
        await client.send(join_frames([*first, PRODUCE]))
        await eventually(lambda: bool(in_hand))
        parking.respond_to()
        assert await client.receive() == first[0]
        in_hand[0].respond(frame(PRODUCE))
        assert await client.receive() == PRODUCE


@on_both_loops
async def test_parked_requests_hold_no_request_memory() -> None:
    parking = ParkingHandler()
    config = network_config(queued_max_request_bytes=1_000)
    async with running_server(parking, config) as served:
        client = await served.connect()
        bodies = [PRODUCE + bytes([number]) * 900 for number in range(5)]
        await client.send(join_frames(bodies))
        await eventually(lambda: len(parking.parked) == 5)
        for body in bodies:
            parking.respond_to()
            assert await client.receive() == body
