"""Time slices of connections: pipelining connections do not delay others."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import echo, frame, running_server
from tests.support.waiting import eventually
from tidelog.base.clock import SystemClock
from tidelog.broker.network.connection import LARGE_READ_BYTES
from tidelog.broker.network.connection_core import SocketReading
from tidelog.broker.network.request import Request
from tidelog.broker.network.response_writer import ResponseWriter
from tidelog.broker.network.socket_watcher import CALLBACKS_MAX
from tidelog.broker.network.turns import (
    CALLBACKS_NS,
    CLOSE_NS,
    COLLECTED_NS,
    PAUSE_NS,
    ROUND_NS,
    SLICE_NS,
    TURN_NS_MAX,
    TURN_NS_MIN,
    Turns,
)


class Loop:
    """A loop whose iterations the test runs, with a clock that only work advances."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.called: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.called.append(callback)

    def run(self) -> None:
        """Run one turn of the loop."""
        called, self.called = self.called, []
        for callback in called:
            callback()


class Worker:
    """Uses the whole of each turn, and is scheduled again as long as it has work."""

    def __init__(self, name: str, loop: Loop, turns: Turns, served: list[str], turns_left: int = 1) -> None:
        self.name, self._loop, self._turns, self._served = name, loop, turns, served
        self._turns_left = turns_left

    def next_turn(self) -> None:
        self._loop.clock.advance_ns(self._turns.turn_ns())
        self._served.append(self.name)
        self._turns_left -= 1
        if self._turns_left:
            self._turns.enqueue(self, is_busy=True)


class Responder:
    """A connection whose turn takes TURN_NS and has a response, and the time when it is sent."""

    TURN_NS = 25_000

    def __init__(self, loop: Loop, turns: Turns) -> None:
        self._loop, self._turns = loop, turns
        self.sent_at_ns: int | None = None

    def next_turn(self) -> None:
        """Respond to one request as `Connection` does."""
        began_ns = self._loop.clock.monotonic_ns()
        self._loop.clock.advance_ns(self.TURN_NS)
        if self._turns.follows_without_pause(began_ns):
            self._turns.send_later(self.send_responses, began_ns)
        else:
            self.send_responses()
        self._turns.on_turn_ended(began_ns)

    def send_responses(self) -> None:
        self.sent_at_ns = self._loop.clock.monotonic_ns()


def responders(loop: Loop, count: int) -> list[Responder]:
    loop.clock.advance_ns(PAUSE_NS)
    turns = Turns(loop.clock, loop.call_soon)
    return [Responder(loop, turns) for _ in range(count)]


def test_the_response_of_a_turn_for_which_the_loop_has_waited_is_sent_at_once() -> None:
    loop = Loop()
    for responder in responders(loop, 5):
        responder.next_turn()
        assert responder.sent_at_ns == loop.clock.monotonic_ns()
        loop.clock.advance_ns(PAUSE_NS)
    assert not loop.called


def test_responses_of_turns_that_follow_each_other_are_sent_together() -> None:
    """Each response woke up its client separately, which took a fifth of the CPU of a small request."""
    loop = Loop()
    first, *others = responders(loop, 10)
    for responder in (first, *others):
        responder.next_turn()
    assert first.sent_at_ns is not None
    assert [other.sent_at_ns for other in others] == [None] * 9
    loop.clock.advance_ns(1)
    loop.run()
    assert {other.sent_at_ns for other in others} == {loop.clock.monotonic_ns()}
    assert not loop.called


def test_a_response_is_collected_for_a_bounded_time() -> None:
    loop = Loop()
    connections = responders(loop, 1_000)
    waited_ns = []
    for responder in connections:
        responder.next_turn()
        unsent = [each for each in connections if each.sent_at_ns is None]
        waited_ns.append((connections.index(responder) - connections.index(unsent[0])) * Responder.TURN_NS)
    assert COLLECTED_NS - Responder.TURN_NS <= max(waited_ns) <= COLLECTED_NS


def test_responses_in_turns_from_the_queue_are_sent_in_the_same_iteration() -> None:
    loop = Loop()
    first, *others = responders(loop, 10)
    turns = first._turns
    first.next_turn()
    for other in others:
        turns.enqueue(other, is_busy=False)
    loop.run()
    assert all(other.sent_at_ns is not None for other in others)
    assert not loop.called


def test_collected_responses_do_not_wait_for_reads_whose_requests_are_handled_later() -> None:
    """After CALLBACKS_NS, requests that are read wait for a turn. Responses waited for all these reads."""
    loop = Loop()
    first, last = responders(loop, 2)
    turns = first._turns
    first.next_turn()
    last.next_turn()
    turns.on_read_began()
    turns.on_read_ended()
    assert last.sent_at_ns is None
    turns.on_read_began()
    loop.clock.advance_ns(CALLBACKS_NS)
    turns.on_read_ended()
    assert last.sent_at_ns == loop.clock.monotonic_ns()


def test_a_connection_whose_responses_cannot_be_sent_does_not_affect_others() -> None:
    class FailingResponder(Responder):
        def send_responses(self) -> None:
            raise AssertionError("it failed")

    loop = Loop()
    first, last = responders(loop, 2)
    first.next_turn()
    FailingResponder(loop, first._turns).next_turn()
    last.next_turn()
    with pytest.raises(AssertionError, match="it failed"):
        loop.run()
    loop.run()
    assert last.sent_at_ns is not None


@on_both_loops
async def test_a_connection_whose_collected_response_cannot_be_sent_is_closed_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error was raised in the turn of another connection."""

    def fail() -> None:
        raise ssl.SSLError("cannot encrypt")

    def handle(request: Request) -> None:
        echo(request)
        if bytes(request.frame) == b"fails":
            writer = next(iter(served.server.connections()))._writer
            assert writer is not None
            monkeypatch.setattr(type(writer), "flush", lambda self: fail() if self is writer else flush(self))

    flush = ResponseWriter.flush
    # Time stands still, so that turns follow each other.
    async with running_server(handle, clock=ManualClock()) as served:
        failing, other = await served.connect(), await served.connect()
        await eventually(lambda: served.server.quota.count == 2)
        for client, body in ((failing, b"fails"), (other, b"other")):
            client.writer.write(frame(body))
        assert await other.receive() == b"other"
        assert await failing.is_closed()
        assert await other.send_request(b"next") == b"next"
    (line,) = caplog.messages
    assert "Cannot complete the response" in line


@on_both_loops
async def test_a_connection_that_drains_while_its_response_is_collected_sends_it_and_closes() -> None:
    def handle(request: Request) -> None:
        echo(request)
        if bytes(request.frame) == b"drain":
            for connection in list(served.server.connections()):
                connection.drain()

    # Time stands still, so that turns follow each other.
    async with running_server(handle, clock=ManualClock()) as served:
        clients = [await served.connect() for _ in range(3)]
        for client in clients:
            assert await client.send_request(b"first") == b"first"
        for client, body in zip(clients, (b"a", b"b", b"drain"), strict=True):
            client.writer.write(frame(body))
        for client, body in zip(clients, (b"a", b"b", b"drain"), strict=True):
            assert await client.receive() == body
            assert await client.is_closed()


def test_the_time_slice_of_a_connection_decreases_with_the_number_of_busy_ones() -> None:
    loop = Loop()
    turns = Turns(loop.clock, loop.call_soon)
    lengths = []
    for number in range(1_000):
        lengths.append(turns.turn_ns())
        turns.enqueue(Worker(str(number), loop, turns, []), is_busy=True)
    assert lengths[0] == TURN_NS_MAX
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[199] * 200 <= ROUND_NS
    assert lengths[-1] == TURN_NS_MIN


def test_the_loop_polls_after_each_slice_and_serves_every_connection() -> None:
    loop = Loop()
    turns = Turns(loop.clock, loop.call_soon)
    served: list[str] = []
    for number in range(200):
        turns.enqueue(Worker(str(number), loop, turns, served, turns_left=3), is_busy=True)
    loop_turns = 0
    while loop.called:
        before = loop.clock.monotonic_ns()
        loop.run()
        loop_turns += 1
        assert loop.clock.monotonic_ns() - before <= SLICE_NS + TURN_NS_MAX
    assert served == [str(number) for number in range(200)] * 3
    assert loop_turns >= 3 * ROUND_NS // (SLICE_NS + TURN_NS_MAX)


def test_idle_connections_are_served_before_busy_ones() -> None:
    loop = Loop()
    turns = Turns(loop.clock, loop.call_soon)
    served: list[str] = []
    for _ in range(100):
        turns.enqueue(Worker("busy", loop, turns, served), is_busy=True)
    for _ in range(100):
        turns.enqueue(Worker("idle", loop, turns, served), is_busy=False)
    loop.run()
    assert served[:-1] == ["idle"] * (len(served) - 1)
    assert served[-1] == "busy"
    assert len(served) < 100
    while loop.called:
        loop.run()
    assert served.count("idle") == served.count("busy") == 100


def test_a_thousand_connections_that_end_at_once_are_closed_in_several_turns_of_the_loop() -> None:
    """The callbacks take no time here: only the time that closing takes afterwards is counted."""
    loop = Loop()
    turns = Turns(loop.clock, loop.call_soon)
    closed_count = 0

    class Ending:
        def next_turn(self) -> None:
            nonlocal closed_count
            closed_count += 1
            turns.on_close()

    for _ in range(1_000):
        turns.enqueue(Ending(), is_busy=False)
    closed_per_turn = []
    while loop.called:
        before = closed_count
        loop.run()
        closed_per_turn.append(closed_count - before)
    assert closed_count == 1_000
    assert max(closed_per_turn) <= SLICE_NS // CLOSE_NS


def test_a_failing_connection_does_not_affect_others() -> None:
    loop = Loop()
    turns = Turns(loop.clock, loop.call_soon)
    served: list[str] = []

    class FailingWorker(Worker):
        def next_turn(self) -> None:
            raise AssertionError("it failed")

    turns.enqueue(FailingWorker("failing", loop, turns, served), is_busy=True)
    turns.enqueue(Worker("other", loop, turns, served), is_busy=True)
    with pytest.raises(AssertionError, match="it failed"):
        loop.run()
    loop.run()
    assert served == ["other"]
    assert not loop.called


@on_both_loops
async def test_a_client_with_single_requests_is_served_among_pipelining_ones() -> None:
    """Counted in requests of the others that are handled while it waits."""
    clock = SystemClock()
    handled = 0

    def work(request: Request) -> None:
        nonlocal handled
        ends_ns = clock.monotonic_ns() + 20_000
        while clock.monotonic_ns() < ends_ns:
            pass
        handled += 1
        echo(request)

    async with running_server(work) as served:
        floods = [await served.connect() for _ in range(200)]
        client = await served.connect()
        flooding = [asyncio.create_task(flood.send(frame(b"f") * 3_000)) for flood in floods]
        await eventually(lambda: handled > 400)
        waited = []
        for _ in range(10):
            before = handled
            assert await client.send_request(b"good") == b"good"
            waited.append(handled - before)
        # In the turns of 2 ms that each had before, it was up to 200 x 100.
        assert sorted(waited)[len(waited) // 2] < 1_000
        for task in flooding:
            task.cancel()


@on_both_loops
async def test_bytes_received_after_the_time_slice_wait_for_the_next_iteration() -> None:
    async with running_server() as served:
        client = await served.connect()
        turns = served.server.turns
        turns.spent_ns = CALLBACKS_NS + 1
        assert await client.send_request(b"late") == b"late"
        assert turns.spent_ns <= CALLBACKS_NS


@on_both_loops
async def test_a_large_frame_received_after_the_time_slice_is_read_in_later_iterations() -> None:
    """Reads of 1 MiB from hundreds of connections in one iteration of the loop took 75 ms."""
    async with running_server() as served:
        client, body = await served.connect(), bytes(1_000_000)
        (connection,) = served.server.connections()
        data = frame(body)[: len(connection.get_buffer(-1))]
        connection.get_buffer(-1)[: len(data)] = data
        connection.buffer_updated(len(data))
        piece = frame(body)[len(data) :][: len(connection.get_buffer(-1))]
        assert len(piece) >= LARGE_READ_BYTES
        connection.get_buffer(-1)[: len(piece)] = piece
        served.server.turns.spent_ns = CALLBACKS_NS + 1
        assert len(connection.get_buffer(-1)) <= LARGE_READ_BYTES
        connection.buffer_updated(len(piece))
        assert connection.core.socket_reading() is SocketReading.PAUSE
        await client.send(frame(body)[len(data) + len(piece) :])
        assert await client.receive() == body


@on_both_loops
async def test_the_first_requests_and_closes_of_many_connections_are_read_a_few_in_each_iteration() -> None:
    """Hundreds of reads in one iteration took 10 ms, whatever was done with the bytes afterwards."""
    loop = asyncio.get_running_loop()
    iteration = 0
    events: Counter[int] = Counter()

    def next_iteration() -> None:
        nonlocal iteration
        iteration += 1
        loop.call_soon(next_iteration)

    def handle(request: Request) -> None:
        events[iteration] += 1
        echo(request)

    def all_await_input() -> bool:
        connections = list(served.server.connections())
        return len(connections) == 200 and all(each._reading.awaits_input for each in connections)

    async with running_server(handle) as served:
        loop.call_soon(next_iteration)
        clients = [await served.connect() for _ in range(200)]
        await eventually(all_await_input)
        for client in clients:
            client.writer.write(frame(b"first"))
        for client in clients:
            assert await client.receive() == b"first"
        # Those of one iteration, and those that it deferred to the next one.
        assert max(events.values()) <= 2 * CALLBACKS_MAX
        await eventually(all_await_input)
        counts = [200]
        for client in clients:
            client.close()
        while counts[-1]:
            await asyncio.sleep(0)
            counts.append(sum(each._reading.awaits_input for each in served.server.connections()))
        # `sleep` may take two iterations.
        assert max(before - after for before, after in pairwise(counts)) <= 2 * CALLBACKS_MAX


@on_both_loops
async def test_a_client_is_served_before_thousands_of_new_and_ended_connections() -> None:
    """Its request waited behind 2,000 first requests, and behind as many closes, for 20 to 60 ms."""
    handled: list[bytes] = []

    def handle(request: Request) -> None:
        handled.append(bytes(request.frame))
        echo(request)

    async with running_server(handle) as served:
        client = await served.connect()
        assert await client.send_request(b"first") == b"first"
        (regular,) = served.server.connections()
        ending_client = await served.connect()
        assert await ending_client.send_request(b"second") == b"second"
        (ending,) = set(served.server.connections()) - {regular}
        await served.connect()
        await eventually(lambda: len(list(served.server.connections())) == 3)
        (new,) = set(served.server.connections()) - {regular, ending}
        served.server.turns.spent_ns = CALLBACKS_NS + 1
        handled.clear()
        ending.eof_received()
        for connection, name in ((new, b"new"), (regular, b"regular")):
            data = frame(name)
            connection.get_buffer(-1)[: len(data)] = data
            connection.buffer_updated(len(data))
        await eventually(lambda: len(handled) == 2 and len(list(served.server.connections())) == 2)
        assert handled == [b"regular", b"new"]


@on_both_loops
async def test_a_client_that_disconnects_after_the_time_slice_is_closed_in_the_next_iteration() -> None:
    async with running_server() as served:
        client = await served.connect()
        assert await client.send_request(b"first") == b"first"
        turns = served.server.turns
        turns.spent_ns = CALLBACKS_NS + 1
        client.close()
        await eventually(lambda: not list(served.server.connections()))
        assert turns.spent_ns <= CALLBACKS_NS
