"""One client's connection: the transport around a `ConnectionCore`, which makes the decisions.

All code runs in callbacks of the event loop. A handler whose response is available at once responds within
the callback that received the request. The responses of one turn are written together.

I/O: the transport, its socket, and the clock.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Iterable
from typing import Final, cast

from tidelog.broker.network.addresses import without_mapping
from tidelog.broker.network.connected_client import ConnectedClient
from tidelog.broker.network.connection_core import ConnectionCore, SocketReading, State
from tidelog.broker.network.connection_throttle import ConnectionThrottle
from tidelog.broker.network.connection_times import ConnectionTimes
from tidelog.broker.network.memory import Admission
from tidelog.broker.network.pausable_reading import PausableReading
from tidelog.broker.network.receive_buffer import InvalidFrameError, ReceiveBuffer
from tidelog.broker.network.request import Request, Response
from tidelog.broker.network.resources import NetworkResources
from tidelog.broker.network.response_writer import ResponseWriter
from tidelog.broker.network.socket_watcher import BROKEN
from tidelog.broker.network.tls_transport import TlsTransport
from tidelog.broker.network.turns import CALLBACKS_NS

logger = logging.getLogger(__name__)

LARGE_READ_BYTES: Final = 4 * 1024
"""When others wait, no more bytes are read at once; if there are so many, the rest waits for a turn."""
AWAITED_INPUTS: Final = 2
"""How often a new connection awaits input: thousands may begin, send one request and end at once."""

_RESUME, _UNCHANGED = SocketReading.RESUME, SocketReading.UNCHANGED
_READING, _END_OF_STREAM, _CLOSING = State.READING, State.END_OF_STREAM, State.CLOSING


class Connection(asyncio.BufferedProtocol):
    """The protocol object of one accepted socket.

    `on_connected` is called when the peer's address is known and returns whether the connection is admitted;
    `on_closed` is called when an admitted connection has ended.
    """

    __slots__ = (
        "_awaited_inputs",
        "_client_socket",
        "_clock",
        "_last_response_ns",
        "_on_closed",
        "_on_connected",
        "_on_request",
        "_reading",
        "_resources",
        "_transport",
        "_turns",
        "_writer",
        "address",
        "buffer",
        "client",
        "core",
        "listener",
        "peer",
        "throttle",
        "times",
    )

    def __init__(
        self,
        resources: NetworkResources,
        listener: str,
        client_socket: socket.socket,
        *,
        frame_bytes_max: int | None = None,
        on_request: Callable[[Request], None],
        on_connected: Callable[[Connection], bool],
        on_closed: Callable[[Connection], None],
    ) -> None:
        """Create the protocol; `frame_bytes_max` limits frames until the client is authenticated."""
        self._resources = resources
        self._client_socket = client_socket
        self._reading = PausableReading(client_socket, resources.watcher, self._on_peer_closed)
        self._on_request = on_request
        self._on_connected = on_connected
        self._on_closed = on_closed
        self._turns = resources.turns
        self._clock = resources.clock
        memory = resources.request_memory
        buffer = ReceiveBuffer(
            resources.config.socket_request_max_bytes if frame_bytes_max is None else frame_bytes_max,
            resources.spare_memory,
            memory.uncounted_bytes,
            resources.memory_release.release,
        )
        self.buffer = buffer
        self.core = ConnectionCore(
            buffer,
            Admission(memory, resources.clock.monotonic_ms, self._schedule),
        )
        self.throttle = ConnectionThrottle(self.core, resources, self._schedule)
        self.times = ConnectionTimes(resources.clock)
        self._transport: asyncio.Transport | None = None
        self._writer: ResponseWriter | None = None
        self._awaited_inputs = 0
        self._last_response_ns = 0
        """The time of the last response, which is also the start time of the next request of the turn."""
        self.listener = listener
        self.client = ConnectedClient()
        self.address = self.peer = "?"

    # ---- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Abort the connection unless the listener admits it."""
        self._transport = cast(asyncio.Transport, transport)
        self.address, self.peer = _peer_of(self._transport)
        if not self._on_connected(self):
            self.abort()
            return
        resources = self._resources
        # Later: uvloop begins to read after this callback.
        asyncio.get_running_loop().call_soon(self._await_input)
        self._writer = ResponseWriter(
            self._transport,
            self._client_socket,
            resources.watcher,
            resources.shared_descriptors,
            self._on_writer_ready,
            self._on_broken,
            resources.memory_release.release,
        )

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next bytes."""
        turns = self._turns
        turns.on_read_began()
        if turns.spent_ns > CALLBACKS_NS:
            return self.core.buffer.writable_at_once(LARGE_READ_BYTES)
        return self.core.buffer.writable()

    def buffer_updated(self, nbytes: int) -> None:
        """Handle the frames that `nbytes` further bytes complete."""
        self.core.on_received(nbytes)
        self._resources.counters.bytes_in += nbytes
        turns = self._turns
        turns.on_read_ended()
        if turns.spent_ns > CALLBACKS_NS:
            # The first requests of many new connections wait until other connections have been served.
            self._schedule(is_busy=not self._last_response_ns, defers_reading=nbytes >= LARGE_READ_BYTES)
        self._serve()
        if self._awaited_inputs < AWAITED_INPUTS:
            self._await_input()

    def eof_received(self) -> bool:
        """Handle the frames before the end of the stream; return whether the transport stays open.

        Many connections may end at once: some of them are closed later, when other connections were served.
        """
        self._abandon(self.core.on_end_of_stream())
        if self._turns.spent_ns > CALLBACKS_NS:
            self._schedule(is_busy=True)
        self._serve()
        return self.core.state < _CLOSING

    def pause_writing(self) -> None:
        """Handle no further frame: the transport is above its high-water mark."""
        if self._writer is not None:
            self._writer.pause()
            self.core.set_writer_blocked(True)

    def resume_writing(self) -> None:
        """Resume writing: the transport is below its low-water mark."""
        if self._writer is not None:
            self._writer.resume()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything, and notify the handlers of requests that have no response."""
        if self._writer is not None:
            self._reading.unwatch()
            self._on_closed(self)
            self._writer.close()
        self.throttle.close()
        lost = self.core.on_closed()
        self._resources.response_memory.discard(self)
        for request in lost:
            for callback in (request.on_abandoned, request.on_lost):
                if callback is not None:
                    callback(request)
        self.client.on_disconnected()
        # Break reference cycles, so that a closed connection does not wait for the garbage collector.
        self._transport = self._writer = None
        del self._reading, self._on_connected, self._on_closed, self._on_request

    # ---- called by requests

    def respond(self, request: Request, response: Response) -> None:
        """Write the response, and pending responses that had to wait for it; see Request.respond."""
        core = self.core
        now_ns = self._clock.monotonic_ns()
        ready = core.on_response(request, response, now_ns)
        if ready is None:
            return
        self._last_response_ns = now_ns
        self.times.on_response(request, now_ns)
        writer = self._writer
        assert writer is not None
        try:
            for one in ready:
                writer.write(one)
            if writer.is_blocked:
                core.set_writer_blocked(True)
            if core.is_in_turn:
                return
            # One commit may complete many parked requests: their responses are written together.
            if not core.pending.count:
                self._flush(writer)
        except OSError as error:
            self._on_broken(error)
        if core.state is _READING and core.buffer.is_empty and not self._is_reading_held_back:
            return  # Often: the client sends its next request when it has the response.
        # In a later turn: the caller may be handling a request of another connection.
        self._schedule()

    def park(self, request: Request) -> None:
        """Park the current request, so that further ones are handled; see Request.park."""
        core = self.core
        if request is not core.request:
            return
        is_parked = core.on_parked(request)
        self._last_response_ns = self.times.begin_remote_time(request)
        if not is_parked and request.on_abandoned is not None:
            request.on_abandoned(request)
        self._schedule()

    def release_frame(self, request: Request, *, keeps_message: bool) -> None:
        """Release the frame of the current request; see Request.release_frame."""
        if self.core.release_frame(request, keeps_message=keeps_message):
            self._update_reading()

    def reject(self, request: Request, reason: str) -> None:
        """Close the connection because of `request`; see Request.close."""
        if self.core.on_rejected(request):
            self.fail(reason)

    def can_respond_to(self, request: Request) -> bool:
        """Return whether `request` can still get a response."""
        return self.core.can_respond_to(request)

    # ---- called by the listener and its server

    @property
    def peer_certificate(self) -> bytes | None:
        """The verified certificate of the peer in DER encoding; None if it has none, and without TLS."""
        tls = None if self._transport is None else self._transport.get_extra_info("ssl_object")
        return None if tls is None else cast(ssl.SSLObject, tls).getpeercert(binary_form=True)

    @property
    def unsent_bytes(self) -> int:
        """Response bytes that the peer has not read yet."""
        return 0 if self._writer is None else self._writer.unsent_bytes

    @property
    def sent_bytes(self) -> int:
        """Bytes of all responses so far."""
        return 0 if self._writer is None else self._writer.sent_bytes

    def sweep(self, now_ms: int) -> int:
        """Release unused memory; return the idle time of the connection in milliseconds."""
        if isinstance(self._transport, TlsTransport):
            # A slow client is not idle.
            self._transport.receive_available()
        return self.core.on_sweep(now_ms, self.unsent_bytes)

    def drain(self) -> None:
        """Handle no further request; close the connection when all responses have been sent."""
        self.core.drain()
        self._close_if_complete()

    def fail(self, reason: str) -> None:
        """Log `reason` and close; responses that were written before are still sent."""
        if self.core.state >= _CLOSING:
            return
        extra = {"peer": self.peer, "listener": self.listener}
        if self.client.software:
            extra["software"] = self.client.software
        self._resources.log_limit.log(
            logger,
            logging.WARNING,
            "Closing connection from %s on listener %s: %s",
            self.peer,
            self.listener,
            reason,
            extra=extra,
        )
        self._close()

    def abort(self) -> None:
        """Close the connection at once; unsent bytes are lost."""
        self.core.close()
        if self._transport is not None:
            self._transport.abort()

    def next_turn(self) -> None:
        """Handle frames that have been received; called by Turns."""
        core = self.core
        if core.defers_reading:
            self._turns.on_read_resumed()
        core.on_turn()
        if self._writer is None:
            return
        if core.request is not None:
            # The handler may take long, and responses to earlier requests are available.
            self._flush(self._writer)
        self._serve()

    # ---- inside

    @property
    def _is_reading_held_back(self) -> bool:
        """Whether a turn is needed before further bytes are received."""
        return self.core.defers_reading or self._reading.is_paused

    def _serve(self) -> None:
        """Handle frames until no frame is complete, the next frame must wait, or the turn ends."""
        core, writer = self.core, self._writer
        if writer is None or not core.begin_turn():
            self._update_reading()
            return
        next_request, on_request = core.next_request, self._on_request
        turns = self._turns
        began_ns, received_ms = self._clock.monotonic_ns(), self._clock.wall_ms()
        started_ns, turn_ends_ns = began_ns, began_ns + turns.turn_ns()
        handled = 0
        try:
            while (request := next_request(self, received_ms, started_ns)) is not None:
                on_request(request)
                handled += 1
                if core.request is not None and self._mute():
                    break
                # Use the time of this response as the start of the next request, to save a clock call.
                started_ns = self._last_response_ns
                if started_ns > turn_ends_ns or core.buffer.is_empty:
                    break
        except InvalidFrameError as error:
            self.fail(str(error))
        finally:
            core.end_turn()
        if core.state is _READING and turns.follows_without_pause(began_ns):
            turns.send_later(self._send_responses, began_ns)
        else:
            self._flush(writer)
        turns.on_turn_ended(began_ns)
        if started_ns > turn_ends_ns and (handled > 1 or core.buffer.has_frame()):
            self._schedule(is_busy=True)
        self._update_reading()
        if core.state >= _END_OF_STREAM:
            self._close_if_complete()

    def _update_reading(self) -> None:
        """Pause or resume reading, as the core requires."""
        core = self.core
        if self._transport is None or not (
            core.buffer.is_full or self._reading.is_paused or core.defers_reading
        ):
            return  # Nearly always: it is read already, and there is room.
        action = core.socket_reading()
        if action is _UNCHANGED:
            return
        if action is not _RESUME:
            self._reading.pause(self._transport, watch=action is SocketReading.PAUSE_AND_WATCH)
        elif self._reading.is_paused:
            self._reading.resume(self._transport)

    def _await_input(self) -> None:
        """Let the watcher report the next bytes of a new connection; not with TLS, which buffers bytes."""
        transport = self._transport
        if transport is None or isinstance(transport, TlsTransport) or self.core.state >= _CLOSING:
            return
        self._awaited_inputs += 1
        self._reading.await_input(transport)

    def _on_peer_closed(self, events: int) -> None:
        """Stop waiting for events: the peer has closed while reading is paused."""
        self._reading.unwatch()
        if not self.core.is_peer_open:
            return
        if events & BROKEN:
            self.abort()
            return
        self._abandon(self.core.on_peer_closed())
        self._schedule()

    def _mute(self) -> bool:
        """Handle no further frame until the request has its response. Return False if it is abandoned."""
        abandoned = self.core.mute()
        if abandoned is None:
            return True
        self._abandon((abandoned,))
        return False

    def _abandon(self, requests: Iterable[Request]) -> None:
        """Call the callbacks of requests that get no response, because the peer has closed."""
        self._last_response_ns = self._clock.monotonic_ns()
        for request in requests:
            if request.on_abandoned is not None:
                request.on_abandoned(request)

    def _schedule(self, *, is_busy: bool = False, defers_reading: bool = False) -> None:
        """Request a later turn; see `Turns` for `is_busy`, and the core for `defers_reading`."""
        if self.core.schedule(defers_reading=defers_reading):
            self._turns.enqueue(self, is_busy=is_busy)

    def _flush(self, writer: ResponseWriter) -> None:
        """Pass collected responses to the transport, and count unsent bytes of a peer that does not read."""
        writer.flush()
        if writer.is_blocked:
            self.times.on_blocked()
            self._resources.response_memory.add(self, writer.memory_bytes)

    def _send_responses(self) -> None:
        """Send the responses of the last turn; called by Turns, also in the turn of another connection."""
        if self._writer is None or self.core.state >= _CLOSING:
            return
        try:
            self._flush(self._writer)
        except OSError as error:
            self._on_broken(error)
            return
        if self.core.state is not _READING:
            self._close_if_complete()

    def _on_writer_ready(self) -> None:
        """Handle requests again: the writer has sent its queue."""
        self.core.set_writer_blocked(False)
        self.times.on_ready()
        self._resources.response_memory.discard(self)
        self._schedule()

    def _on_broken(self, error: OSError) -> None:
        """Abort the connection: sending failed in the middle of a response."""
        if self.core.state >= _CLOSING:
            return
        if not isinstance(error, ConnectionError):
            self._resources.log_limit.log(
                logger,
                logging.ERROR,
                "Cannot complete the response to %s: %s; closing the connection",
                self.peer,
                error,
                extra={"peer": self.peer},
            )
        self.abort()

    def _close_if_complete(self) -> None:
        if self._writer is not None and self._writer.is_idle and self.core.is_complete:
            self._close()

    def _close(self) -> None:
        """Close when the transport has sent its data; the idle sweep aborts a peer that does not read."""
        if self._transport is not None and self.core.close():
            self._turns.on_close()
            try:
                if self._writer is not None:
                    self._flush(self._writer)
            except OSError:
                # After invalid records of the client, a TLS session cannot encrypt the collected responses.
                self.abort()
            else:
                self._transport.close()


def _peer_of(transport: asyncio.Transport) -> tuple[str, str]:
    """Return the peer's address, and its address and port as text; a mapped IPv4 address as IPv4."""
    name = transport.get_extra_info("peername")
    if not name:
        return "?", "?"
    address = without_mapping(str(name[0]))
    return address, f"[{address}]:{name[1]}" if ":" in address else f"{address}:{name[1]}"
