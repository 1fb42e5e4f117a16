"""Random events of a connection core, compared with lists of its requests."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.support.network.connection_peer import FETCH, PRODUCE, Peer
from tests.support.network.loopback_server import frame
from tidelog.broker.network import pending_responses
from tidelog.broker.network.connection_core import SocketReading, State
from tidelog.broker.network.memory import Admission, RequestMemory
from tidelog.broker.network.request import Request


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
        pending = [request for request in self.parked if request not in self.responses]
        assert [request for request in abandoned if request in self.parked] == pending
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
