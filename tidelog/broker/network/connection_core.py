"""The state machine of one client's connection: which frame is handled next, and which response is sent.

Requests are handled one at a time, and responses are sent in the order of the requests. A Produce that is
parked may be followed by further Produces before its response is available.

    READING             no request lacks a response; the next complete frame is handled
    MUTED               a handler has not responded at once; bytes are received until the buffer is full
    RESPONSES_PENDING   only parked requests lack a response; a Produce is handled, other frames wait
    THROTTLED           the client has exceeded a quota: no frame is handled until the throttle time ends
    PEER_CLOSED         the peer has closed its side, and the end of its stream has not been read yet
    END_OF_STREAM       the end of the stream has been read; complete frames before it are still handled
    DRAINING            the broker stops: no further frame is handled, but requests get their responses
    FINISHING           as DRAINING, and the peer has closed its side
    CLOSING             this side closes: no frame is handled, and no response is accepted
    CLOSED              the transport has closed

Legal transitions:

    READING             MUTED               the handler of a frame has not responded at once
                        RESPONSES_PENDING   the handler has parked its request
    MUTED               READING             the response is available, and no earlier response is pending
                        RESPONSES_PENDING   the request is parked, or earlier responses are pending
    RESPONSES_PENDING   MUTED               the handler of a Produce has not responded at once
                        READING             the last response is available
    any of these three  THROTTLED           a response has a throttle time (KIP-219)
    THROTTLED           any of these three  the throttle time ends
    any of these four   PEER_CLOSED, END_OF_STREAM, DRAINING
    PEER_CLOSED         END_OF_STREAM, FINISHING
    END_OF_STREAM       FINISHING
    DRAINING            FINISHING
    any of these        CLOSING, CLOSED
    CLOSING             CLOSED

From PEER_CLOSED on, a request that only waits for an event or a timeout is abandoned, because the client
normally does not read its response. This side cannot detect a client that has closed only its sending half
and still reads. Responses of requests that are being processed are sent in all cases.

Requests that were handled before the connection was throttled get their responses. When the end of the stream
has been read, the throttle time ends too, because the buffered frames are the last ones.

In addition, the next frame waits while the connection is scheduled for a later turn of the loop, while the
peer does not read responses, and while a large request waits for memory.

I/O: none. The caller, `Connection`, reports events and acts on the results of the methods.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum, auto
from typing import Final

from tidelog.broker.network.memory import Admission
from tidelog.broker.network.pending_responses import PendingResponses
from tidelog.broker.network.receive_buffer import ReceiveBuffer
from tidelog.broker.network.request import Request, RequestConnection, Response
from tidelog.protocol.registry import ApiKey


class State(IntEnum):
    """The state of a connection; the head of the file describes each state."""

    READING = 0
    MUTED = 1
    RESPONSES_PENDING = 2
    THROTTLED = 3
    PEER_CLOSED = 4
    END_OF_STREAM = 5
    DRAINING = 6
    FINISHING = 7
    CLOSING = 8
    CLOSED = 9

    # That of Enum is a function of Python.
    __hash__ = int.__hash__


_ENDS: Final = frozenset({State.CLOSING, State.CLOSED})
_FROM_OPEN: Final = frozenset({State.PEER_CLOSED, State.END_OF_STREAM, State.DRAINING}) | _ENDS

TRANSITIONS: Final = (
    frozenset({State.MUTED, State.RESPONSES_PENDING, State.THROTTLED}) | _FROM_OPEN,
    frozenset({State.READING, State.RESPONSES_PENDING, State.THROTTLED}) | _FROM_OPEN,
    frozenset({State.MUTED, State.READING, State.THROTTLED}) | _FROM_OPEN,
    frozenset({State.READING, State.MUTED, State.RESPONSES_PENDING}) | _FROM_OPEN,
    frozenset({State.END_OF_STREAM, State.FINISHING}) | _ENDS,
    frozenset({State.FINISHING}) | _ENDS,
    frozenset({State.FINISHING}) | _ENDS,
    _ENDS,
    frozenset({State.CLOSED}),
    frozenset[State](),
)
"""The states that may follow, by the value of the current state."""

_READING, _MUTED, _RESPONSES_PENDING = State.READING, State.MUTED, State.RESPONSES_PENDING
_THROTTLED, _PEER_CLOSED, _END_OF_STREAM = State.THROTTLED, State.PEER_CLOSED, State.END_OF_STREAM
_DRAINING, _FINISHING = State.DRAINING, State.FINISHING
_CLOSING, _CLOSED = State.CLOSING, State.CLOSED


class SocketReading(Enum):
    """What the owner of the transport must do about reading from it."""

    RESUME = auto()
    PAUSE = auto()
    PAUSE_AND_WATCH = auto()
    """Pause, and watch for the peer's close, which a paused transport does not report."""
    UNCHANGED = auto()


_RESUME, _PAUSE, _PAUSE_AND_WATCH = SocketReading.RESUME, SocketReading.PAUSE, SocketReading.PAUSE_AND_WATCH


class ConnectionCore:
    """Owns the receive buffer, the current request and the parked requests of one connection."""

    __slots__ = (
        "_admission",
        "_has_received",
        "_is_writer_blocked",
        "_unsent_bytes",
        "buffer",
        "defers_reading",
        "idle_since_ms",
        "is_in_turn",
        "is_scheduled",
        "pending",
        "request",
        "state",
        "throttled_until_ms",
    )

    def __init__(self, buffer: ReceiveBuffer, admission: Admission) -> None:
        """Create the core; `admission` takes memory for large requests from the budget of the node."""
        self.state = _READING
        self.buffer = buffer
        self.request: Request | None = None
        """The current request, which a handler processes; None if there is none."""
        self.is_in_turn = False
        self.is_scheduled = False
        """Whether the connection waits for its turn."""
        self.defers_reading = False
        """Whether no bytes are received until the next turn, because other connections wait."""
        self.idle_since_ms = 0
        self.throttled_until_ms = 0
        """The end of the throttle time in the state THROTTLED."""
        self._admission = admission
        self.pending = PendingResponses()
        """The parked requests; only the core changes them."""
        self._is_writer_blocked = False
        self._has_received = False
        self._unsent_bytes = 0

    # ---- questions

    @property
    def lacks_responses(self) -> bool:
        """Whether a request has no response yet."""
        return self.request is not None or self.pending.count > 0

    @property
    def is_peer_open(self) -> bool:
        """Whether this side is open, and has not detected that the peer has closed."""
        return self.state < _PEER_CLOSED or self.state is _DRAINING

    @property
    def has_peer_closed(self) -> bool:
        """Whether the peer has closed its side, and this side is open."""
        return self.state in (_PEER_CLOSED, _END_OF_STREAM, _FINISHING)

    @property
    def is_complete(self) -> bool:
        """Whether the connection closes as soon as the written responses are sent."""
        if self.request is not None or self.pending.count:
            return False
        if self.state is _END_OF_STREAM:
            return not self.buffer.has_frame()
        return self.state is _DRAINING or self.state is _FINISHING

    @property
    def is_active(self) -> bool:
        """Whether a request lacks its response, or bytes were received since the last `on_sweep`."""
        return self._has_received or self.lacks_responses

    def can_respond_to(self, request: Request) -> bool:
        """Return whether `request` has no response yet and can still get one."""
        return request is self.request or self.pending.is_pending(request)

    def holds_memory_since(self, before_ms: int) -> bool:
        """Return whether a request that is not complete has held memory since before `before_ms`."""
        if self.request is not None or self.state >= _CLOSING:
            return False
        return self._admission.is_held and self._admission.since_ms < before_ms

    def socket_reading(self) -> SocketReading:
        """Return whether to read: not before a turn that it waits for, nor while no frame can be handled."""
        state = self.state
        if state >= _END_OF_STREAM and state is not _DRAINING:
            return SocketReading.UNCHANGED
        if self.defers_reading:
            return _PAUSE
        if not self.buffer.is_full:
            return _RESUME
        if (
            self.request is not None
            or self._is_writer_blocked
            or self._admission.is_waiting
            or state is _THROTTLED
            or state is _DRAINING
            or (state is _RESPONSES_PENDING and not self._may_handle_frame())
        ):
            return _PAUSE if state is _PEER_CLOSED else _PAUSE_AND_WATCH
        # A connection that is only scheduled is read again soon.
        return _PAUSE if self.is_scheduled else _RESUME

    # ---- events of the transport

    def on_received(self, byte_count: int) -> None:
        """Accept `byte_count` bytes that were written to `buffer.writable()`."""
        self.buffer.on_received(byte_count)
        self._has_received = True

    def on_peer_closed(self) -> Sequence[Request]:
        """Note that the peer has closed while reading is paused; return the requests to abandon."""
        assert self.is_peer_open, f"the peer has closed twice, in {self.state.name}"
        self._transition(_FINISHING if self.state is _DRAINING else _PEER_CLOSED)
        return self._abandon_waiting()

    def on_end_of_stream(self) -> Sequence[Request]:
        """Note that the end of the stream was read; return the requests to abandon."""
        if self.state >= _CLOSING:
            return ()
        if self.state is _DRAINING:
            self._transition(_FINISHING)
        elif self.state is not _FINISHING:
            self._transition(_END_OF_STREAM)
        return self._abandon_waiting()

    def set_writer_blocked(self, is_blocked: bool) -> None:
        """Handle no further frame while the peer does not read its responses.

        When the writer is no longer blocked, the caller schedules a turn.
        """
        self._is_writer_blocked = is_blocked

    def on_closed(self) -> list[Request]:
        """Release everything; return all requests that have no response."""
        self._transition(_CLOSED)
        self.buffer.discard()
        self._admission.release()
        # It refers to the connection: without it a closed connection does not need the garbage collector.
        del self._admission
        lost = self.pending.clear()
        if self.request is not None:
            lost.append(self.request)
            self.request = None
        return lost

    # ---- turns

    def schedule(self, *, defers_reading: bool = False) -> bool:
        """Wait for a later turn; return whether the caller must schedule it.

        `defers_reading`: receive no bytes until then.
        """
        if self.is_in_turn or self.state >= _CLOSING:
            return False
        was_scheduled, self.is_scheduled = self.is_scheduled, True
        self.defers_reading |= defers_reading
        return not was_scheduled

    def on_turn(self) -> None:
        """Note that the scheduled turn has begun."""
        self.is_scheduled = self.defers_reading = False

    def begin_turn(self) -> bool:
        """Begin to handle frames; return False if no frame may be handled now."""
        if self.is_in_turn or self.is_scheduled or self.request is not None or self.state >= _CLOSING:
            return False
        self.is_in_turn = True
        return True

    def end_turn(self) -> None:
        """End the turn that `begin_turn` began."""
        self.is_in_turn = False

    # ---- requests

    def next_request(
        self, connection: RequestConnection, received_ms: int, started_ns: int
    ) -> Request | None:
        """Make the next frame the current one and return its request; None if no frame may be handled now.

        Errors: InvalidFrameError.
        """
        if self._is_writer_blocked or (self.state is not _READING and not self._may_handle_frame()):
            return None
        frame = self.buffer.next_frame()
        if frame is None:
            large = self.buffer.frame_to_admit()
            frame = None if large is None else self._admit(*large)
            if frame is None:
                return None
        request = self.request = Request(connection, frame, received_ms, started_ns)
        return request

    def mute(self) -> Request | None:
        """Keep the current request, whose handler has not responded at once, until it gets its response.

        Returns the request if it is abandoned instead, because it only waits and the peer has closed.
        """
        if self.state < _THROTTLED:
            self._transition(_MUTED)
        return self._abandon_current()

    def on_response(self, request: Request, response: Response, now_ns: int) -> Sequence[Response] | None:
        """Accept the response of a request; return the responses to write now, in the order of the requests.

        None if the request cannot get a response any more: it was abandoned, or the connection has ended.
        """
        pending = self.pending
        ready: Sequence[Response] = (response,)
        if request is self.request:
            self._release_request()
            if self.state is _READING:
                return ready
        elif not pending.is_pending(request):
            assert not self.is_peer_open, f"a request of {request.peer} has two responses"
            return None
        if pending.count:
            ready = pending.respond(request, response, now_ns)
        if self.request is None:
            self._leave_muted()
        return ready if self.state < _CLOSING else ()

    def on_parked(self, request: Request) -> bool:
        """Park the current request; return False if it is abandoned, because the peer has closed."""
        assert request is self.request, f"a request of {request.peer} is parked but is not the current one"
        is_peer_open = self.is_peer_open
        if is_peer_open:
            self.pending.add(request)
        self._end_request()
        return is_peer_open

    def on_rejected(self, request: Request) -> bool:
        """Return whether `request` is open; the connection must then close."""
        if request is self.request:
            self._end_request()
            return True
        return self.pending.is_pending(request)

    def release_frame(self, request: Request, *, keeps_message: bool) -> bool:
        """Release the frame of `request`; return False if it is not the current request.

        `keeps_message`: the decoded message still counts as memory of the request.
        """
        if request is not self.request:
            return False
        self.buffer.drop_frame()
        if not keeps_message and self._admission.cost_bytes:
            self._release_memory()
        return True

    # ---- throttle times

    def throttle(self, until_ms: int) -> bool:
        """Handle no frame until `until_ms`; return whether the caller must call `end_throttle` at that time.

        False if the connection ends, or if it is already throttled until a later time.
        """
        if self.state >= _PEER_CLOSED:
            return False
        if self.state is not _THROTTLED:
            self._transition(_THROTTLED)
        elif until_ms <= self.throttled_until_ms:
            return False
        self.throttled_until_ms = until_ms
        return True

    def end_throttle(self) -> None:
        """Handle frames again, if the connection is still throttled."""
        if self.state is not _THROTTLED:
            return
        if self.request is not None:
            self._transition(_MUTED)
        else:
            self._transition(_RESPONSES_PENDING if self.pending.count else _READING)

    # ---- the end

    def drain(self) -> None:
        """Handle no further frame; `is_complete` holds when every request has its response."""
        if self.state < _PEER_CLOSED:
            self._transition(_DRAINING)
        elif self.state < _DRAINING:
            self._transition(_FINISHING)

    def close(self) -> bool:
        """Handle no frame and accept no response from now on; return False if the connection has ended."""
        if self.state >= _CLOSING:
            return False
        self._transition(_CLOSING)
        return True

    # ---- the idle timer

    def restart_idle_time(self, now_ms: int) -> None:
        """Count idle time from `now_ms` on."""
        self.idle_since_ms = now_ms

    def on_sweep(self, now_ms: int, unsent_bytes: int) -> int:
        """Return the time in milliseconds since the peer last sent or read bytes.

        Releases the buffer of an idle connection. `unsent_bytes`: response bytes that the peer has not read.
        """
        if self._has_received or unsent_bytes < self._unsent_bytes:
            self._has_received = False
            self.idle_since_ms = now_ms
        elif not self.lacks_responses:
            self.buffer.shrink()
        self._unsent_bytes = unsent_bytes
        return now_ms - self.idle_since_ms

    # ---- inside

    def _transition(self, state: State) -> None:
        assert state in TRANSITIONS[self.state], f"{self.state.name} -> {state.name}"
        self.state = state

    def _may_handle_frame(self) -> bool:
        """Return whether a frame may be handled in a state other than READING.

        A Produce may follow a parked Produce: both are appended in their order, and followers fetch them
        together. Any other response could reveal a state that the producer does not know yet.
        """
        if self.state is _RESPONSES_PENDING:
            return not self.pending.is_full and self.buffer.next_api_key() in (ApiKey.PRODUCE, None)
        return self.request is None and (self.state is _PEER_CLOSED or self.state is _END_OF_STREAM)

    def _end_request(self) -> None:
        self._release_request()
        self._leave_muted()

    def _release_request(self) -> None:
        self.request = None
        self.buffer.release()
        if self._admission.cost_bytes:
            self._release_memory()

    def _leave_muted(self) -> None:
        """Handle frames again, unless the connection ends."""
        state = _RESPONSES_PENDING if self.pending.count else _READING
        if self.state is not state and self.state < _THROTTLED:
            self._transition(state)

    def _abandon_waiting(self) -> list[Request]:
        """End the requests that only wait; a request that is being processed stays the current one."""
        abandoned = [request for request in self.pending.clear() if request.on_abandoned is not None]
        request = self._abandon_current()
        if request is not None:
            abandoned.append(request)
        return abandoned

    def _abandon_current(self) -> Request | None:
        """End and return the current request if it only waits and the peer has closed; else return None."""
        request = self.request
        if request is None or request.on_abandoned is None or not self.has_peer_closed:
            return None
        self._end_request()
        return request

    def _admit(self, frame_bytes: int, api_key: int) -> memoryview | None:
        """Take memory for the next frame, which is large; return it if it is complete and admitted."""
        if self._admission.is_waiting:
            return None
        if not self._admission.is_held and not self._admission.request(frame_bytes, api_key):
            return None
        self.buffer.admit(frame_bytes)
        return self.buffer.next_frame()

    def _release_memory(self) -> None:
        self._admission.release()
        self.buffer.admit(self._admission.uncounted_bytes)
