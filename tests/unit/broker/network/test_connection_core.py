"""The state machine of a connection: every transition, and single rules."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.network.connection_peer import FETCH, PRODUCE, Peer
from tests.support.network.loopback_server import frame
from tests.support.states import state_of
from tidelog.broker.network import connection_core
from tidelog.broker.network.connection_core import TRANSITIONS, ConnectionCore, SocketReading, State
from tidelog.broker.network.receive_buffer import FIRST_BYTES
from tidelog.broker.network.request import Request

OPEN = (State.READING, State.MUTED, State.RESPONSES_PENDING, State.THROTTLED)
LEGAL = {
    **{state: {*OPEN, State.PEER_CLOSED, State.END_OF_STREAM, State.DRAINING} - {state} for state in OPEN},
    State.PEER_CLOSED: {State.END_OF_STREAM, State.FINISHING},
    State.END_OF_STREAM: {State.FINISHING},
    State.DRAINING: {State.FINISHING},
    State.FINISHING: set[State](),
}
"""The legal transitions, apart from those to CLOSING and CLOSED."""


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
    assert state_of(peer.core) is State.THROTTLED
    peer.core.end_throttle()
    assert state_of(peer.core) is State.READING


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
