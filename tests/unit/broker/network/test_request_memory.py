"""The memory limit of large requests: admission, small requests, and timeouts."""

from __future__ import annotations

import struct

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import network_config
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import RunningServer, echo, frame, running_server
from tests.support.waiting import eventually
from tidelog.broker.network.memory import (
    MESSAGE_BYTES_MAX,
    MESSAGE_FACTOR,
    UNCOUNTED_BYTES,
    Admission,
    RequestMemory,
)
from tidelog.broker.network.receive_buffer import NORMAL_BYTES
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import STALLED_MS
from tidelog.protocol.registry import ApiKey

MIB = 1024 * 1024
PRODUCE = struct.pack(">h", ApiKey.PRODUCE)


def produce(size: int) -> bytes:
    """Return a frame of `size` bytes that begins like a Produce."""
    return frame(PRODUCE + bytes(size - 2))


class Requests:
    """Admissions by name, and the order in which those that had to wait were admitted."""

    def __init__(self, limit_bytes: int) -> None:
        self.memory = RequestMemory(limit_bytes)
        self.order: list[str] = []
        self.admissions: dict[str, Admission] = {}

    def begin(self, name: str, size: int, key: ApiKey = ApiKey.PRODUCE) -> bool:
        admission = Admission(self.memory, lambda: 0, lambda: self.order.append(name))
        self.admissions[name] = admission
        return admission.request(size, key)

    def end(self, name: str) -> None:
        self.admissions.pop(name).release()


def test_a_request_may_use_a_quarter_of_the_remaining_memory() -> None:
    requests = Requests(100 * MIB)
    assert requests.begin("first", 25 * MIB)
    assert requests.begin("fits", 18 * MIB)
    assert not requests.begin("too large now", 18 * MIB)
    assert requests.memory.used_bytes == 43 * MIB
    requests.end("first")
    assert requests.order == ["too large now"]


def test_a_request_larger_than_the_memory_limit_starts_alone() -> None:
    requests = Requests(10 * MIB)
    assert requests.begin("small", MIB)
    assert not requests.begin("huge", 100 * MIB)
    requests.end("small")
    assert requests.order == ["huge"]
    assert not requests.begin("next", MIB)
    requests.end("huge")
    assert requests.order == ["huge", "next"]
    requests.end("next")
    assert requests.memory.used_bytes == 0


def test_small_requests_do_not_wait_for_large_ones() -> None:
    requests = Requests(16 * MIB)
    assert requests.begin("first", 4 * MIB)
    assert not requests.begin("large", 8 * MIB)
    assert not requests.begin("smaller", 4 * MIB)
    assert requests.begin("middle", 2 * MIB)
    assert requests.begin("small", MIB)
    for number in range(20):
        requests.begin(f"waits {number}", MIB)
    waiting = [name for name, each in requests.admissions.items() if each.is_waiting]
    requests.end(waiting[3])
    requests.end("first")
    assert requests.order == [name for name in waiting[2:] if name != waiting[3]][: len(requests.order)]
    assert len(requests.order) >= 3


def test_a_decoded_request_is_charged_for_its_objects() -> None:
    memory = RequestMemory(512 * MIB)
    assert memory.cost_of(MIB, ApiKey.PRODUCE) == MIB
    assert memory.cost_of(MIB, ApiKey.METADATA) == MESSAGE_FACTOR * MIB
    assert memory.cost_of(50 * MIB, ApiKey.FETCH) == 50 * MIB + MESSAGE_BYTES_MAX
    assert RequestMemory(512 * MIB, counts_all_requests=True).cost_of(MIB, ApiKey.METADATA) == MIB


def buffered_bytes(served: RunningServer) -> int:
    return sum(connection.core.buffer.capacity_bytes for connection in served.server.connections())


@on_both_loops
async def test_many_large_requests_stay_within_the_memory_limit_and_get_responses() -> None:
    config = network_config(max_large_request_bytes=8 * MIB)
    parked: list[Request] = []

    def park_large(request: Request) -> None:
        if len(request.frame) > UNCOUNTED_BYTES:
            parked.append(request)
        else:
            echo(request)

    async with running_server(park_large, config) as served:
        clients = [await served.connect() for _ in range(30)]
        for client in clients:
            client.writer.write(produce(MIB))
        memory = served.server.request_memory
        await eventually(lambda: len(parked) >= 4 and memory.has_waiting)
        small = await served.connect()
        assert await small.send_request(b"small") == b"small"
        assert memory.used_bytes <= 8 * MIB
        assert buffered_bytes(served) <= 8 * MIB + 31 * NORMAL_BYTES
        response_count = 0
        while response_count < 30:
            await eventually(lambda: bool(parked))
            parked.pop().respond(frame(b"done"))
            response_count += 1
        for client in clients:
            assert await client.receive() == b"done"
        assert (memory.used_bytes, memory.has_waiting) == (0, False)


@on_both_loops
async def test_a_connection_that_reserves_memory_without_sending_is_closed_when_others_wait() -> None:
    clock = ManualClock()
    config = network_config(max_large_request_bytes=8 * MIB)
    async with running_server(config=config, clock=clock) as served:
        claiming = [await served.connect() for _ in range(3)]
        for client in claiming:
            await client.send(produce(7 * MIB)[:100])
        memory = served.server.request_memory
        await eventually(lambda: memory.has_waiting)
        assert memory.used_bytes == 7 * MIB + 4
        served.server.sweep()
        clock.now_ms += STALLED_MS + 1
        good = await served.connect()
        good.writer.write(produce(7 * MIB))
        await eventually(lambda: sum(map(len, memory._waiting.values())) == 3)
        served.server.sweep()
        assert await claiming[0].is_closed()
        clock.now_ms += STALLED_MS + 1
        served.server.sweep()
        assert await claiming[1].is_closed()
        clock.now_ms += STALLED_MS + 1
        served.server.sweep()
        assert len(await good.receive()) == 7 * MIB


@on_both_loops
async def test_a_peer_that_disconnects_while_it_waits_for_memory_is_removed() -> None:
    config = network_config(max_large_request_bytes=2 * MIB)
    async with running_server(config=config) as served:
        first, second = [await served.connect() for _ in range(2)]
        await first.send(produce(2 * MIB)[:100])
        await second.send(produce(2 * MIB)[:100])
        memory = served.server.request_memory
        await eventually(lambda: memory.has_waiting)
        second.close()
        await eventually(lambda: not memory.has_waiting)
        first.close()
        await eventually(lambda: memory.used_bytes == 0)


@on_both_loops
async def test_during_a_drain_a_large_request_that_waits_for_memory_closes_its_connection() -> None:
    config = network_config(max_large_request_bytes=2 * MIB)
    async with running_server(config=config) as served:
        first, second = [await served.connect() for _ in range(2)]
        await first.send(produce(2 * MIB)[:100])
        second.writer.write(produce(2 * MIB))
        await eventually(lambda: served.server.request_memory.has_waiting)
        await served.server.close(timeout_s=1.0)
        assert await second.is_closed()
