"""The state machine of a connection: every transition, and random events compared with a model."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.network.loopback_server import frame
from tidelog.broker.network import connection_core, pending_responses
from tidelog.broker.network.connection_core import TRANSITIONS, ConnectionCore, SocketReading, State
from tidelog.broker.network.memory import Admission, RequestMemory, SpareMemory
from tidelog.broker.network.receive_buffer import FIRST_BYTES, ReceiveBuffer
from tidelog.broker.network.request import Request, RequestConnection

PRODUCE, FETCH = b"\0\0", b"\0\1"
OPEN = (State.READING, State.MUTED, State.RESPONSES_PENDING, State.THROTTLED)
CONNECTION = cast(RequestConnection, object())
LEGAL = {
    **{state: {*OPEN, State.PEER_CLOSED, State.END_OF_STREAM, State.DRAINING} - {state} for state in OPEN},
    State.PEER_CLOSED: {State.END_OF_STREAM, State.FINISHING},
    State.END_OF_STREAM: {State.FINISHING},
    State.DRAINING: {State.FINISHING},
    State.FINISHING: set[State](),
}
"""The legal transitions, apart from those to CLOSING and CLOSED."""


class Peer:
    """A connection core with the client that sends to it, and the outcomes of the requests."""

    def __init__(self, memory: RequestMemory | None = None) -> None:
        self.memory = memory or RequestMemory(10_000)
        self.memory_events = 0
        admission = Admission(self.memory, lambda: 0, self._on_memory)
        buffer = ReceiveBuffer(1_000_000, SpareMemory(0), self.memory.uncounted_bytes)
        self.core = ConnectionCore(buffer, admission)

    def _on_memory(self) -> None:
        self.memory_events += 1

    def send(self, data: bytes) -> int:
        """Receive as much of `data` as the buffer holds; return how much that was."""
        room = self.core.buffer.writable()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        self.core.on_received(count)
        return count

    def next_request(self) -> Request | None:
        return self.core.next_request(CONNECTION, 0, 0)

    def take(self) -> Request:
        """Take the next current request, within a turn."""
        assert self.core.begin_turn()
        request = self.next_request()
        assert request is not None
        return request

    def take_and_mute(self) -> Request:
        """Take the next request, whose handler does not respond at once."""
        request = self.take()
        assert self.core.mute() is None
        self.core.end_turn()
        return request

    def take_and_park(self) -> Request:
        """Take the next request, which its handler parks."""
        request = self.take()
        assert self.core.on_parked(request)
        self.core.end_turn()
        return request


def reading_peer() -> Peer:
    return Peer()


def muted_peer() -> Peer:
    peer = Peer()
    peer.send(frame(FETCH) + frame(FETCH))
    peer.take_and_mute()
    return peer


def responses_pending() -> Peer:
    peer = Peer()
    peer.send(frame(PRODUCE) + frame(PRODUCE))
    peer.take_and_park()
    return peer


def throttled_peer() -> Peer:
    peer = Peer()
    assert peer.core.throttle(until_ms=1_000)
    return peer


def peer_closed() -> Peer:
    peer = Peer()
    peer.core.on_peer_closed()
    return peer


def end_of_stream() -> Peer:
    peer = Peer()
    peer.core.on_end_of_stream()
    return peer


def draining_peer() -> Peer:
    peer = muted_peer()
    peer.core.drain()
    return peer


def finishing_peer() -> Peer:
    peer = draining_peer()
    peer.core.on_peer_closed()
    return peer


def closing_peer() -> Peer:
    peer = muted_peer()
    assert peer.core.close()
    return peer


def closed_peer() -> Peer:
    peer = Peer()
    peer.core.on_closed()
    return peer


IN_STATE: dict[State, Callable[[], Peer]] = {
    State.READING: reading_peer,
    State.MUTED: muted_peer,
    State.RESPONSES_PENDING: responses_pending,
    State.THROTTLED: throttled_peer,
    State.PEER_CLOSED: peer_closed,
    State.END_OF_STREAM: end_of_stream,
    State.DRAINING: draining_peer,
    State.FINISHING: finishing_peer,
    State.CLOSING: closing_peer,
    State.CLOSED: closed_peer,
}


def requests_of(core: ConnectionCore) -> list[Request]:
    return [*core.pending._responses, *([] if core.request is None else [core.request])]


def respond_to_last(peer: Peer) -> None:
    peer.core.on_response(requests_of(peer.core)[-1], b"", 0)


def end_throttle_of_request(peer: Peer, *, parks: bool) -> None:
    """End the throttle time while a request has no response, which its handler may park."""
    peer.core.end_throttle()
    peer.send(frame(PRODUCE))
    peer.take_and_mute()
    assert peer.core.throttle(1_000)
    if parks:
        assert peer.core.on_parked(requests_of(peer.core)[0])
    peer.core.end_throttle()


EVENTS: dict[tuple[State, State], Callable[[Peer], object]] = {
    (State.READING, State.MUTED): lambda peer: (peer.send(frame(FETCH)), peer.take_and_mute()),
    (State.READING, State.RESPONSES_PENDING): lambda peer: (peer.send(frame(PRODUCE)), peer.take_and_park()),
    (State.MUTED, State.READING): respond_to_last,
    (State.MUTED, State.RESPONSES_PENDING): lambda peer: peer.core.on_parked(requests_of(peer.core)[0]),
    (State.RESPONSES_PENDING, State.MUTED): lambda peer: peer.take_and_mute(),
    (State.RESPONSES_PENDING, State.READING): respond_to_last,
    **{(state, State.THROTTLED): lambda peer: peer.core.throttle(1_000) for state in OPEN[:3]},
    (State.THROTTLED, State.READING): lambda peer: peer.core.end_throttle(),
    (State.THROTTLED, State.MUTED): lambda peer: end_throttle_of_request(peer, parks=False),
    (State.THROTTLED, State.RESPONSES_PENDING): lambda peer: end_throttle_of_request(peer, parks=True),
    **{(state, State.PEER_CLOSED): lambda peer: peer.core.on_peer_closed() for state in OPEN},
    **{
        (state, State.END_OF_STREAM): lambda peer: peer.core.on_end_of_stream()
        for state in (*OPEN, State.PEER_CLOSED)
    },
    **{(state, State.DRAINING): lambda peer: peer.core.drain() for state in OPEN},
    **{
        (state, State.FINISHING): lambda peer: peer.core.drain()
        for state in (State.PEER_CLOSED, State.END_OF_STREAM)
    },
    (State.DRAINING, State.FINISHING): lambda peer: peer.core.on_end_of_stream(),
    **{
        (state, State.CLOSING): lambda peer: peer.core.close()
        for state in State
        if state not in (State.CLOSING, State.CLOSED)
    },
    **{(state, State.CLOSED): lambda peer: peer.core.on_closed() for state in State if state < State.CLOSED},
}


@pytest.mark.parametrize(("before", "after"), EVENTS)
def test_each_event_leads_to_its_next_state(before: State, after: State) -> None:
    peer = IN_STATE[before]()
    assert peer.core.state is before
    EVENTS[before, after](peer)
    assert peer.core.state is after


def test_the_transition_table_is_complete() -> None:
    table = {(State(before), after) for before, states in enumerate(TRANSITIONS) for after in states}
    assert table == set(EVENTS)
    ends = {(before, after) for before, after in table if after >= State.CLOSING}
    assert table - ends == {(before, after) for before, states in LEGAL.items() for after in states}
    assert ends == {
        (before, after) for before, after in product(State, (State.CLOSING, State.CLOSED)) if before < after
    }


@pytest.mark.parametrize(("before", "after"), [pair for pair in product(State, State) if pair not in EVENTS])
def test_any_other_transition_is_a_bug(before: State, after: State) -> None:
    peer = IN_STATE[before]()
    with pytest.raises(AssertionError, match=f"{before.name} -> {after.name}"):
        peer.core._transition(after)
    assert peer.core.state is before


def test_the_core_does_no_io() -> None:
    tree = ast.parse(Path(connection_core.__file__).read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert modules.isdisjoint({"asyncio", "socket", "select", "time", "threading", "random"})


# ---- single rules


def test_a_handler_that_responds_at_once_does_not_mute() -> None:
    peer = Peer()
    peer.send(frame(FETCH) + frame(FETCH))
    assert peer.core.begin_turn()
    for _ in range(2):
        request = peer.next_request()
        assert request is not None
        assert peer.core.on_response(request, b"one", 0) == (b"one",)
        assert peer.core.state is State.READING
    assert peer.next_request() is None


def test_a_close_abandons_a_request_that_only_waits() -> None:
    peer = muted_peer()
    (request,) = requests_of(peer.core)
    assert peer.core.on_peer_closed() == []
    request.on_abandoned = print
    assert peer.core.on_end_of_stream() == [request]
    assert not peer.core.can_respond_to(request)
    assert peer.core.on_response(request, b"late", 0) is None


def test_a_request_parked_after_the_close_is_abandoned() -> None:
    peer = muted_peer()
    (request,) = requests_of(peer.core)
    peer.core.on_peer_closed()
    assert not peer.core.on_parked(request)
    assert not peer.core.lacks_responses


def test_a_second_response_to_an_open_peer_is_a_bug() -> None:
    peer = muted_peer()
    (request,) = requests_of(peer.core)
    request.connection = cast(Any, type("Named", (), {"peer": "10.0.0.1:1"}))
    peer.core.on_response(request, b"", 0)
    with pytest.raises(AssertionError, match="two responses"):
        peer.core.on_response(request, b"", 0)


@pytest.mark.parametrize("state", State)
def test_a_full_buffer_pauses_reading_while_no_frame_can_be_handled(state: State) -> None:
    peer = IN_STATE[state]()
    expected = {
        State.READING: SocketReading.RESUME,
        State.MUTED: SocketReading.PAUSE_AND_WATCH,
        State.RESPONSES_PENDING: SocketReading.RESUME,
        State.THROTTLED: SocketReading.PAUSE_AND_WATCH,
        State.PEER_CLOSED: SocketReading.RESUME,
        State.DRAINING: SocketReading.PAUSE_AND_WATCH,
    }
    if state < State.CLOSING:
        while peer.core.buffer.capacity_bytes < FIRST_BYTES or not peer.core.buffer.is_full:
            peer.send(bytes(FIRST_BYTES) if state is not State.RESPONSES_PENDING else frame(PRODUCE) * 2_000)
    assert peer.core.socket_reading() is expected.get(state, SocketReading.UNCHANGED)


def test_no_frame_is_handled_until_the_throttle_time_ends() -> None:
    peer = Peer()
    peer.send(frame(FETCH) * 2)
    request = peer.take()
    assert peer.core.throttle(until_ms=1_000)
    assert peer.core.on_response(request, b"one", 0) == (b"one",), "the response is not delayed (KIP-219)"
    assert peer.next_request() is None
    peer.core.end_throttle()
    assert peer.next_request() is not None


def test_a_parked_request_gets_its_response_while_the_connection_is_throttled() -> None:
    peer = responses_pending()
    (parked,) = requests_of(peer.core)
    peer.core.throttle(until_ms=1_000)
    assert peer.core.on_response(parked, b"one", 0) == [b"one"]
    assert peer.core.state is State.THROTTLED
    peer.core.end_throttle()
    assert peer.core.state is State.READING


def test_the_later_of_two_throttle_ends_applies() -> None:
    peer = Peer()
    assert peer.core.throttle(until_ms=1_000)
    assert not peer.core.throttle(until_ms=900)
    assert peer.core.throttle(until_ms=1_100)
    assert peer.core.throttled_until_ms == 1_100


@pytest.mark.parametrize("state", [state for state in State if state > State.THROTTLED])
def test_a_closing_connection_is_not_throttled(state: State) -> None:
    peer = IN_STATE[state]()
    assert not peer.core.throttle(until_ms=1_000)
    peer.core.end_throttle()
    assert peer.core.state is state


def test_reading_resumes_when_the_buffer_has_room() -> None:
    peer = muted_peer()
    while not peer.core.buffer.is_full:
        peer.send(frame(FETCH) * 1_000)
    assert peer.core.socket_reading() is SocketReading.PAUSE_AND_WATCH
    respond_to_last(peer)
    assert peer.core.begin_turn()
    while (request := peer.next_request()) is not None:
        peer.core.on_response(request, b"", 0)
    peer.core.end_turn()
    assert peer.core.socket_reading() is SocketReading.RESUME
    assert len(peer.core.buffer.writable()) > 0


@pytest.mark.parametrize("was_scheduled", [False, True])
def test_deferred_reading_resumes_in_the_turn_of_the_connection(was_scheduled: bool) -> None:
    core = Peer().core
    if was_scheduled:
        core.schedule()
    assert core.schedule(defers_reading=True) is not was_scheduled
    assert core.socket_reading() is SocketReading.PAUSE
    core.on_turn()
    assert core.socket_reading() is SocketReading.RESUME


def test_a_connection_is_queued_for_its_turn_once() -> None:
    core = Peer().core
    assert core.schedule()
    assert not core.schedule()
    assert not core.begin_turn()
    core.on_turn()
    assert core.begin_turn()
    assert not core.schedule(), "the turn looks for further frames itself"


def test_received_and_sent_bytes_end_the_idle_time() -> None:
    peer = Peer()
    peer.core.restart_idle_time(1_000)
    assert peer.core.on_sweep(1_500, 300) == 500
    assert peer.core.on_sweep(1_700, 200) == 0
    peer.send(b"\0")
    assert peer.core.is_active
    assert peer.core.on_sweep(2_000, 200) == 0
    assert not peer.core.is_active
    assert peer.core.on_sweep(2_400, 200) == 400


# ---- random orders of events


class ConnectionModel(RuleBasedStateMachine):
    """Compares a core with lists: requests that are sent, current, parked, and ended."""

    PARKED_MAX = 3

    def __init__(self) -> None:
        super().__init__()
        self.limit = pending_responses.PENDING_RESPONSES_MAX
        pending_responses.PENDING_RESPONSES_MAX = self.PARKED_MAX  # type: ignore[misc]
        self.memory = RequestMemory(400, counts_all_requests=True)
        self.peer = Peer(self.memory)
        self.core = self.peer.core
        self.other = Admission(self.memory, lambda: 0, lambda: None)
        self.unsent = b""
        self.sent: list[bytes] = []
        self.in_hand: Request | None = None
        self.parked: list[Request] = []
        self.bodies: dict[Request, bytes] = {}
        self.responses: dict[Request, bytes] = {}
        self.written: list[bytes] = []
        self.ended: list[Request] = []
        """Abandoned, rejected or lost."""
        self.is_blocked = False
        self.has_end_been_read = False
        self.steps = 0
        self.open_steps = 0

    @initialize(open_steps=st.integers(0, 50))
    def start(self, open_steps: int) -> None:
        """Keep the connection open for `open_steps` steps, so that there are requests to end."""
        self.open_steps = open_steps
        assert self.core.state is State.READING

    @property
    def may_end(self) -> bool:
        return self.steps > self.open_steps

    def teardown(self) -> None:
        try:
            self.lose()
        finally:
            pending_responses.PENDING_RESPONSES_MAX = self.limit  # type: ignore[misc]

    def lose(self) -> None:
        """Close the transport: each request has one end, and nothing is kept."""
        if self.core.state is not State.CLOSED:
            self.end(self.core.on_closed())
        assert not self.core.lacks_responses
        responded = set(self.responses)
        assert responded.isdisjoint(self.ended)
        assert len(set(self.ended)) == len(self.ended)
        assert responded | set(self.ended) == set(self.bodies)
        self.other.release()
        assert self.memory.used_bytes == 0
        assert not self.memory.has_waiting
        assert self.core.buffer.capacity_bytes == 0

    def end(self, requests: Iterable[Request]) -> None:
        for request in requests:
            self.ended.append(request)
            if request in self.parked:
                self.parked.remove(request)
            if request is self.in_hand:
                self.in_hand = None

    def drop_parked(self, abandoned: Iterable[Request]) -> None:
        """Parked requests end when the peer closes."""
        abandoned = list(abandoned)
        unanswered = [request for request in self.parked if request not in self.responses]
        assert [request for request in abandoned if request in self.parked] == unanswered
        self.end(abandoned)
        self.parked.clear()

    # ---- the client

    @rule(
        sizes=st.lists(st.tuples(st.sampled_from([PRODUCE, PRODUCE, FETCH]), st.integers(0, 150)), min_size=1)
    )
    def client_sends(self, sizes: list[tuple[bytes, int]]) -> None:
        for key, size in sizes:
            body = key + len(self.sent).to_bytes(4, "big") + bytes(size)
            self.sent.append(body)
            self.unsent += frame(body)

    @precondition(lambda self: self.core.state < State.END_OF_STREAM or self.core.state is State.DRAINING)
    @rule(count=st.integers(1, 2_000))
    def bytes_arrive(self, count: int) -> None:
        if self.core.socket_reading() is SocketReading.RESUME:
            received = self.peer.send(self.unsent[:count])
            assert received > 0 or not self.unsent
            self.unsent = self.unsent[received:]

    @precondition(lambda self: self.core.state < State.PEER_CLOSED)
    @rule(
        sizes=st.lists(
            st.tuples(st.sampled_from([PRODUCE, PRODUCE, PRODUCE, FETCH]), st.integers(0, 50)),
            min_size=3,
            max_size=8,
        ),
        choices=st.lists(
            st.sampled_from(["respond", "park", "park", "park", "keep", "wait"]), min_size=6, max_size=8
        ),
    )
    def exchange(self, sizes: list[tuple[bytes, int]], choices: list[str]) -> None:
        """Send requests and handle them. Without this rule, few random orders handle a request."""
        self.client_sends(sizes)
        self.is_blocked = False
        self.core.set_writer_blocked(False)
        self.other.release()
        before = -1
        while len(self.unsent) != before and self.core.socket_reading() is SocketReading.RESUME:
            before = len(self.unsent)
            self.bytes_arrive(len(self.unsent) or 1)
        if self.in_hand is None:
            self.turn(choices)

    @precondition(lambda self: self.may_end and self.core.is_peer_open)
    @rule()
    def peer_closes(self) -> None:
        self.drop_parked(self.core.on_peer_closed())
        assert self.core.has_peer_closed

    @precondition(
        lambda self: self.may_end and not self.has_end_been_read and self.core.state < State.CLOSING
    )
    @rule()
    def end_of_stream_is_read(self) -> None:
        self.has_end_been_read = True
        self.drop_parked(self.core.on_end_of_stream())
        assert self.core.has_peer_closed

    # ---- the loop

    @rule()
    def schedule(self) -> None:
        was_scheduled = self.core.is_scheduled
        may = not was_scheduled and self.core.state < State.CLOSING
        assert self.core.schedule() is may

    @rule(
        choices=st.lists(
            st.sampled_from(["respond", "park", "park", "keep", "wait", "reject"]), min_size=4, max_size=8
        )
    )
    def turn(self, choices: list[str]) -> None:
        self.core.on_turn()
        if not self.core.begin_turn():
            assert self.in_hand is not None or self.core.state >= State.CLOSING
            return
        for choice in choices:
            before = self.core.state
            request = self.peer.next_request()
            if request is None:
                break
            self.check_may_be_handled(request, before)
            self.bodies[request] = bytes(request.frame)
            self.in_hand = request
            if not self.handle(request, choice):
                break
        self.core.end_turn()

    def check_may_be_handled(self, request: Request, state: State) -> None:
        assert state in (State.READING, State.RESPONSES_PENDING, State.PEER_CLOSED, State.END_OF_STREAM)
        assert self.in_hand is None
        assert not self.is_blocked
        body = bytes(request.frame)
        assert body == self.sent[len(self.bodies)]
        if self.parked:
            assert body.startswith(PRODUCE)
            assert len(self.parked) < self.PARKED_MAX

    def handle(self, request: Request, choice: str) -> bool:
        """Do what a handler may do; return whether the turn continues."""
        if choice == "respond":
            self.respond(request)
            return True
        if choice == "park":
            if self.core.on_parked(request):
                request.on_abandoned = print
                self.parked.append(request)
                self.in_hand = None
            else:
                self.end([request])
            return True
        if choice == "reject" and self.may_end:
            assert self.core.on_rejected(request)
            self.core.close()
            self.end([request])
            return True
        if choice == "wait":
            request.on_abandoned = print
        abandoned = self.core.mute()
        assert (abandoned is request) == (choice == "wait" and self.core.has_peer_closed)
        if abandoned is not None:
            self.end([abandoned])
        return abandoned is not None

    # ---- handlers

    def respond(self, request: Request) -> None:
        """Respond, and compare with what may be written."""
        response = b"response to " + self.bodies[request]
        ready = self.core.on_response(request, response, 0)
        assert ready is not None
        self.responses[request] = response
        if request is self.in_hand:
            self.in_hand = None
            self.parked.append(request)
        expected: list[bytes] = []
        while self.parked and self.parked[0] in self.responses:
            expected.append(self.responses[self.parked.pop(0)])
        assert list(ready) == ([] if self.core.state >= State.CLOSING else expected)
        self.written += cast(list[bytes], list(ready))

    @precondition(lambda self: self.in_hand is not None)
    @rule()
    def handler_responds(self) -> None:
        assert self.in_hand is not None
        self.respond(self.in_hand)

    @precondition(lambda self: self.in_hand is not None and self.core.state < State.CLOSING)
    @rule()
    def handler_parks(self) -> None:
        request = self.in_hand
        assert request is not None
        request.on_abandoned = print
        if self.core.on_parked(request):
            self.parked.append(request)
            self.in_hand = None
        else:
            self.end([request])

    @precondition(lambda self: self.in_hand is not None)
    @rule(keeps_message=st.booleans())
    def handler_releases_the_frame(self, keeps_message: bool) -> None:
        assert self.in_hand is not None
        assert self.core.release_frame(self.in_hand, keeps_message=keeps_message)

    @rule(number=st.integers(0, PARKED_MAX - 1))
    def parked_request_is_complete(self, number: int) -> None:
        waiting = [request for request in self.parked if request not in self.responses]
        if waiting:
            self.respond(waiting[number % len(waiting)])

    # ---- the node

    @precondition(lambda self: self.core.state < State.CLOSING)
    @rule(is_blocked=st.booleans())
    def writer_changes(self, is_blocked: bool) -> None:
        self.is_blocked = is_blocked
        self.core.set_writer_blocked(is_blocked)

    @rule(until_ms=st.integers(1, 10))
    def a_quota_is_exceeded(self, until_ms: int) -> None:
        is_open = self.core.state < State.PEER_CLOSED
        is_throttled = self.core.state is State.THROTTLED
        is_later = not is_throttled or until_ms > self.core.throttled_until_ms
        assert self.core.throttle(until_ms) is (is_open and is_later)
        assert (self.core.state is State.THROTTLED) is is_open

    @rule()
    def the_throttle_time_ends(self) -> None:
        self.core.end_throttle()
        assert self.core.state is not State.THROTTLED

    @rule(frame_bytes=st.integers(200, 500))
    def another_connection_changes_its_memory(self, frame_bytes: int) -> None:
        if self.other.cost_bytes:
            self.other.release()
        else:
            self.other.request(frame_bytes, 1)

    @precondition(lambda self: self.may_end)
    @rule()
    def broker_drains(self) -> None:
        self.core.drain()
        assert self.core.state >= State.DRAINING
        assert self.peer.next_request() is None

    @precondition(lambda self: self.may_end and self.steps % 8 == 0)
    @rule()
    def connection_closes(self) -> None:
        is_open = self.core.state < State.CLOSING
        assert self.core.close() is is_open
        assert self.core.state >= State.CLOSING

    @rule()
    def sweep(self) -> None:
        assert self.core.on_sweep(0, 0) == 0

    # ---- invariants

    @invariant()
    def the_state_says_what_lacks_a_response(self) -> None:
        core = self.core
        assert core.request is self.in_hand
        assert core.lacks_responses == (self.in_hand is not None or bool(self.parked))
        if core.state is State.READING:
            assert self.in_hand is None
            assert not self.parked
        elif core.state is State.MUTED:
            assert self.in_hand is not None
        elif core.state is State.RESPONSES_PENDING:
            assert self.in_hand is None
            assert self.parked
        elif core.state is State.THROTTLED:
            assert core.is_in_turn or self.peer.next_request() is None
        elif core.has_peer_closed:
            assert not self.parked

    @invariant()
    def responses_are_written_in_the_order_of_the_requests(self) -> None:
        order = [int.from_bytes(body[14:18], "big") for body in self.written]
        assert order == sorted(order)

    @invariant()
    def count_steps(self) -> None:
        self.steps += 1

    @invariant()
    def at_most_the_limit_is_parked(self) -> None:
        assert len(self.parked) <= self.PARKED_MAX

    @invariant()
    def nothing_is_handled_or_read_while_it_must_wait(self) -> None:
        core = self.core
        if core.state >= State.CLOSING:
            assert core.socket_reading() is SocketReading.UNCHANGED
            assert not core.begin_turn()
        if core.state >= State.DRAINING or self.in_hand is not None or self.is_blocked:
            assert not core.is_in_turn
            if self.in_hand is None:
                assert self.peer.next_request() is None


TestConnectionModel = ConnectionModel.TestCase
TestConnectionModel.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
