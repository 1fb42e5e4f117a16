"""One client's connection: bytes in, one request at a time, answers out in order.

What keeps the next frame from being handled, and what ends that:

    request in hand      a handler has not answered yet          answered(), refused(), parked()
    answers owed         a Produce is parked, and this is none   the answers, in order
    turn over            this connection used up its turn         its next one (`turns`)
    writer blocked       the peer does not read                   the writer's on_ready
    waiting for memory   too many large requests                  RequestMemory admits it
    draining, ended      the broker stops, or the peer has gone   nothing

Meanwhile bytes are received behind the frame in hand until the buffer is full, then reading pauses.

What the peer has done decides what its requests may still wait for:

    OPEN         it may send more
    PEER_CLOSED  it has sent its last byte, which is not read yet: reading is paused, a SocketWatcher saw it
    ALL_READ     the end was read; frames before it are still handled, as producers with acks=0 expect
    ENDED        this side is closing, or closed

From PEER_CLOSED on a request that only waits, for others or for time, is abandoned, since as a rule nobody
would read its answer. That a client has closed one half only, and still reads, cannot be told from here; the
answers to requests that are being worked on are sent in any case.

I/O: a shell; everything happens in callbacks of the event loop, and a handler that has its answer
at hand gives it within the very callback that brought the request.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from enum import Enum, auto
from typing import cast

from tidelog.broker.network.memory import Admission
from tidelog.broker.network.owed_answers import OwedAnswers
from tidelog.broker.network.reading import Reading
from tidelog.broker.network.receive_buffer import InvalidFrameError, ReceiveBuffer
from tidelog.broker.network.request import Answer, ClientInformation, Request
from tidelog.broker.network.resources import NetworkResources
from tidelog.broker.network.response_writer import ResponseWriter
from tidelog.broker.network.socket_watcher import BROKEN
from tidelog.broker.network.turns import CALLBACKS_NS
from tidelog.protocol.registry import ApiKey

logger = logging.getLogger(__name__)


class Stage(Enum):
    """How much is left of a connection; it only ever goes forward."""

    OPEN = auto()
    PEER_CLOSED = auto()
    ALL_READ = auto()
    ENDED = auto()


_OPEN, _ENDED = Stage.OPEN, Stage.ENDED


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket.

    `on_connected` is called once the peer is known and returns whether the connection is admitted;
    `on_closed` is called when an admitted connection has ended.
    """

    __slots__ = (
        "_accepted",
        "_admission",
        "_answered_ns",
        "_buffer",
        "_clock",
        "_counters",
        "_draining",
        "_in_turn",
        "_on_closed",
        "_on_connected",
        "_on_request",
        "_owed",
        "_reading",
        "_request",
        "_resources",
        "_responses",
        "_scheduled",
        "_stage",
        "_transport",
        "_turns",
        "_waits_for_answers",
        "_writer",
        "address",
        "client",
        "has_received",
        "idle_since_ms",
        "listener",
        "peer",
        "principal",
        "unsent_seen",
    )

    def __init__(
        self,
        resources: NetworkResources,
        listener: str,
        accepted: socket.socket,
        *,
        on_request: Callable[[Request], None],
        on_connected: Callable[[Connection], bool],
        on_closed: Callable[[Connection], None],
    ) -> None:
        self._resources = resources
        self._accepted = accepted
        self._reading = Reading(accepted, resources.watcher, self._peer_closed)
        self._on_request = on_request
        self._on_connected = on_connected
        self._on_closed = on_closed
        self._turns = resources.turns
        self._clock = resources.clock
        self._counters = resources.counters
        memory = resources.request_memory
        self._admission = Admission(memory, resources.clock.monotonic_ms, self._schedule)
        self._buffer = ReceiveBuffer(
            resources.config.socket_request_max_bytes, resources.spare_memory, memory.uncounted_bytes
        )
        self._responses = resources.response_memory
        self._request: Request | None = None
        self._owed = OwedAnswers()
        self._transport: asyncio.Transport | None = None
        self._writer: ResponseWriter | None = None
        self._answered_ns = 0
        self._in_turn = self._scheduled = self._waits_for_answers = False
        self._draining = False
        self._stage = _OPEN
        self.listener = listener
        self.principal = "User:ANONYMOUS"
        self.client = ClientInformation()
        self.address = self.peer = "?"
        # Bookkeeping of the idle sweep.
        self.has_received = False
        self.idle_since_ms = 0
        self.unsent_seen = 0

    # ---- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.address, self.peer = _peer_of(self._transport)
        if not self._on_connected(self):
            self._stage = _ENDED
            self._transport.abort()
            return
        shared = self._resources
        self._writer = ResponseWriter(
            self._transport, self._accepted, shared.watcher, shared.kept_files, self._resumed, self._broken
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        self._buffer.received(nbytes)
        self.has_received = True
        self._counters.bytes_in += nbytes
        if self._turns.spent_ns > CALLBACKS_NS:
            self._schedule()
        self._serve()

    def eof_received(self) -> bool:
        if self._stage is not _ENDED:
            self._stage = Stage.ALL_READ
            self._abandon_waiting()
            self._serve()
        return self._stage is not _ENDED

    def pause_writing(self) -> None:
        if self._writer is not None:
            self._writer.pause()

    def resume_writing(self) -> None:
        if self._writer is not None:
            self._writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stage = _ENDED
        if self._writer is None:
            self._drop_references()
            return
        self._reading.unwatch()
        self._on_closed(self)
        self._writer.close()
        self._buffer.discard()
        self._admission.release()
        self._responses.resumed(self)
        abandoned = self._owed.clear()
        if self._request is not None:
            abandoned.append(self._request)
            self._request = None
        for request in abandoned:
            for callback in (request.on_abandoned, request.on_lost):
                if callback is not None:
                    callback(request)
        self._drop_references()

    def _drop_references(self) -> None:
        """Break reference cycles, so that a closed connection does not wait for the garbage collector."""
        self._transport = self._writer = None
        del self._reading, self._admission, self._on_connected, self._on_closed

    # ---- called by requests

    def answered(self, request: Request, answer: Answer) -> None:
        """Send an answer, behind those that are owed since earlier, and turn to the next frame."""
        owed = self._owed
        if request is self._request:
            self._done_with_request()
        elif not owed.has(request):
            assert self._stage is not _OPEN, f"a request of {self.peer} was answered twice"
            return
        now_ns = self._answered_ns = self._clock.monotonic_ns()
        if request.route is not None:
            request.route.metrics.answered(now_ns - request.started_ns)
        if self._stage is _ENDED:
            return
        assert self._writer is not None
        try:
            if owed.count:
                for one in owed.answered(request, answer):
                    self._writer.write(one)
                # One commit may answer many: they leave together, with the last or in the turn to come.
                if not owed.count and not self._in_turn:
                    self._flush(self._writer)
                self._schedule()
                return
            self._writer.write(answer)
            if not self._in_turn:
                self._flush(self._writer)
                # Not at once: whoever answers now may be in the middle of another connection's request.
                self._schedule()
        except OSError as error:
            self._broken(error)

    def parked(self, request: Request) -> None:
        """The request in hand waits for others: its frame is done with, its answer is owed."""
        if request is not self._request:
            return
        self._done_with_request()
        self._answered_ns = self._clock.monotonic_ns()
        if self._stage is _OPEN:
            self._owed.add(request)
        elif request.on_abandoned is not None:
            request.on_abandoned(request)
        if not self._in_turn:
            self._schedule()

    def frame_released(self, request: Request, *, keeps_message: bool) -> None:
        """The request in hand needs its frame no more; the next one still waits until it is answered."""
        if request is self._request:
            self._buffer.drop_frame()
            if not keeps_message:
                self._release_memory()
            self._check_room()

    def refused(self, request: Request, reason: str) -> None:
        """End the connection because of the request in hand."""
        if request is self._request:
            self._done_with_request()
            self.fail(reason)
        elif self._owed.has(request):
            self.fail(reason)

    # ---- called by the listener and its server

    @property
    def owes_answers(self) -> bool:
        """Whether a handler has yet to answer anything."""
        return self._request is not None or self._owed.count > 0

    @property
    def has_peer_closed(self) -> bool:
        """Whether the peer has closed its side, and this side is open."""
        return self._stage in (Stage.PEER_CLOSED, Stage.ALL_READ)

    def owes(self, request: Request) -> bool:
        """Whether this request can still be answered."""
        return request is self._request or self._owed.has(request)

    @property
    def unsent_bytes(self) -> int:
        """Answer bytes that the peer has not taken yet."""
        return 0 if self._writer is None else self._writer.unsent_bytes

    @property
    def sent_bytes(self) -> int:
        """Answer bytes of all answers so far."""
        return 0 if self._writer is None else self._writer.sent_bytes

    def holds_memory_since(self, before_ms: int) -> bool:
        """Whether a large request has held memory since before that time and has not been received yet."""
        return self._request is None and self._admission.is_held and self._admission.since_ms < before_ms

    def release_idle_memory(self) -> None:
        """Give back the receive buffer of a connection that is quiet."""
        self._buffer.shrink()

    def drain(self) -> None:
        """Handle no further request; close when what was taken on is answered and sent."""
        self._draining = True
        self._close_if_done()

    def fail(self, reason: str) -> None:
        """Log why and close; what was answered before is still sent."""
        if self._stage is _ENDED:
            return
        self._resources.log_limit.log(
            logger,
            logging.WARNING,
            "closing connection from %s on listener %s: %s",
            self.peer,
            self.listener,
            reason,
            extra={"peer": self.peer, "listener": self.listener},
        )
        self._end()

    def abort(self) -> None:
        """Close now, whatever is unsent."""
        self._stage = _ENDED
        if self._transport is not None:
            self._transport.abort()

    # ---- inside

    def _serve(self) -> None:
        """Handle frames until there is none, one must be waited for, or the turn is over."""
        if self._in_turn or self._scheduled or self._request is not None or self._stage is _ENDED:
            self._check_room()
            return
        writer = self._writer
        assert writer is not None
        next_frame, on_request = self._buffer.next_frame, self._on_request
        turns = self._turns
        began_ns, received_ms = self._clock.monotonic_ns(), self._clock.wall_ms()
        started_ns, turn_ends_ns = began_ns, began_ns + turns.turn_ns()
        self._in_turn, self._waits_for_answers = True, False
        handled = 0
        try:
            while not (writer.blocked or self._draining or self._stage is _ENDED):
                if self._owed.count and not self._may_pass():
                    break
                frame = next_frame()
                if frame is None and self._admit_next():
                    frame = next_frame()
                if frame is None:
                    break
                request = self._request = Request(self, frame, received_ms, started_ns)
                on_request(request)
                handled += 1
                if self._request is not None and (self._stage is _OPEN or not self._abandon_request()):
                    break
                # The next request begins when this one was answered: one look at the clock for both.
                started_ns = self._answered_ns
                if started_ns > turn_ends_ns:
                    break
        except InvalidFrameError as error:
            self.fail(str(error))
        finally:
            self._in_turn = False
        self._flush(writer)
        turns.spent_ns += self._clock.monotonic_ns() - began_ns
        if started_ns > turn_ends_ns and (handled > 1 or self._buffer.has_frame()):
            self._schedule(is_busy=True)
        self._check_room()
        if self._draining or self._stage is Stage.ALL_READ:
            self._close_if_done()

    def _may_pass(self) -> bool:
        """Whether the next frame may be handled before answers that are owed are there.

        A Produce may follow a Produce: both are appended in their order, and followers fetch them together.
        Anything else could tell of a state that the producer does not know of yet.
        """
        if self._owed.is_full or self._buffer.next_api_key() not in (ApiKey.PRODUCE, None):
            self._waits_for_answers = True
            return False
        return True

    def _check_room(self) -> None:
        """Continue reading only if there is somewhere to put the bytes, else watch for the peer's close."""
        if self._transport is None or self._writer is None:
            return
        if self._stage is not _OPEN and self._stage is not Stage.PEER_CLOSED:
            return
        waits = (
            self._request is not None
            or self._admission.is_waiting
            or self._draining
            or self._waits_for_answers
            or self._writer.blocked
        )
        if (waits or self._scheduled) and self._buffer.is_full:
            # A connection that is merely scheduled is read again soon.
            self._reading.pause(self._transport, watch=waits and self._stage is _OPEN)
        elif self._reading.is_paused:
            self._reading.resume(self._transport)

    def _peer_closed(self, events: int) -> None:
        """The peer has closed while reading is paused: nothing may wait for long any more."""
        self._reading.unwatch()
        if self._stage is not _OPEN:
            return
        if events & BROKEN:
            self.abort()
            return
        self._stage = Stage.PEER_CLOSED
        self._abandon_waiting()
        self._schedule()

    def _abandon_waiting(self) -> None:
        """Cancel the requests that only wait; one that is being worked on stays in hand."""
        for request in self._owed.clear():
            if request.on_abandoned is not None:
                request.on_abandoned(request)
        if self._request is not None:
            self._abandon_request()

    def _abandon_request(self) -> bool:
        """Cancel the request in hand if it only waits."""
        request = self._request
        if request is None or request.on_abandoned is None:
            return False
        self._done_with_request()
        self._answered_ns = self._clock.monotonic_ns()
        request.on_abandoned(request)
        return True

    def _schedule(self, *, is_busy: bool = False) -> None:
        if not self._scheduled and self._stage is not _ENDED:
            self._scheduled = True
            self._turns.wait(self, is_busy=is_busy)

    def next_turn(self) -> None:
        """Continue with the frames that have been received; called by Turns."""
        self._scheduled = False
        if self._request is not None and self._writer is not None:
            # It may take its time, and answers to requests before it are there.
            self._flush(self._writer)
        self._serve()

    def _done_with_request(self) -> None:
        self._request = None
        self._buffer.release()
        if self._admission.cost_bytes:
            self._release_memory()

    def _admit_next(self) -> bool:
        """Take memory for the next frame if it is a large one; whether it may be received and handled now."""
        wanted = self._buffer.frame_to_admit()
        if wanted is None or self._admission.is_waiting:
            return False
        if not self._admission.is_held and not self._admission.request(*wanted):
            return False
        self._buffer.admitted_bytes = wanted[0]
        return True

    def _release_memory(self) -> None:
        self._admission.release()
        self._buffer.admitted_bytes = self._resources.request_memory.uncounted_bytes

    def _flush(self, writer: ResponseWriter) -> None:
        writer.flush()
        if writer.blocked:
            self._responses.blocked(self, writer.memory_bytes)

    def _resumed(self) -> None:
        """The writer can take answers again."""
        self._responses.resumed(self)
        self._schedule()

    def _broken(self, error: OSError) -> None:
        """Sending failed in the middle of an answer: nothing more can be said on this connection."""
        if self._stage is _ENDED:
            return
        if not isinstance(error, ConnectionError):
            limit, extra = self._resources.log_limit, {"peer": self.peer}
            limit.log(
                logger, logging.ERROR, "answer to %s cannot be completed: %s", self.peer, error, extra=extra
            )
        self.abort()

    def _close_if_done(self) -> None:
        if self.owes_answers or self._stage is _ENDED or self._writer is None:
            return
        if self._writer.is_idle and (self._draining or not self._buffer.has_frame()):
            self._end()

    def _end(self) -> None:
        """Close once the transport has sent what it holds; the idle sweep ends that if need be."""
        if self._stage is _ENDED or self._transport is None:
            return
        self._stage = _ENDED
        if self._writer is not None:
            self._flush(self._writer)
        self._transport.close()


def _peer_of(transport: asyncio.Transport) -> tuple[str, str]:
    """The peer's address, and address and port as text; IPv4 in IPv6's clothes is shown as IPv4."""
    name = transport.get_extra_info("peername")
    if not name:
        return "?", "?"
    address = str(name[0]).removeprefix("::ffff:")
    return address, f"[{address}]:{name[1]}" if ":" in address else f"{address}:{name[1]}"
