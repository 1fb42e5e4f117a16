"""The transport of one connection with TLS, on top of the plain transport of the event loop.

    OPEN        the connection receives and sends bytes; the handshake was completed before
    CLOSING     this side closes: nothing is received, and bytes that were written before are sent
    CLOSED      the plain transport has closed

Legal transitions:

    OPEN        CLOSING, CLOSED
    CLOSING     CLOSED

asyncio and uvloop have TLS transports too. Those call the protocol as soon as the socket has any bytes. A
client that sends small records then causes one callback for every few records, and a callback costs more than
their decryption. This transport sets SO_RCVLOWAT: the socket becomes readable when it has the rest of the
frame, or LOW_WATER_MAX bytes.

The stream of the client ends with close_notify or with the end of the socket's stream: sizes delimit frames.
As with the plain transport, the connection gets all bytes before the end, then `eof_received`. It may still
respond.

Bounds: OpenSSL keeps memory for about READ_BYTES and WRITE_BYTES. I/O: the plain transport and its socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from enum import Enum, auto
from typing import Any, Final, Protocol, cast

from tidelog.broker.network.receive_buffer import ReceiveBuffer
from tidelog.broker.network.tls_handshake import ReadMemory
from tidelog.broker.network.tls_session import InvalidRecordsError, TlsSession

WRITE_BYTES: Final = 64 * 1024
LOW_WATER_MAX: Final = 32 * 1024
"""More is received before a frame is complete, so that decryption and the client work at the same time."""
LOW_WATER_MIN: Final = 512
"""The low-water mark is not changed for less: the option costs as much as reading a few records."""


class State(Enum):
    """The state of a transport; the head of the file describes each state."""

    OPEN = auto()
    CLOSING = auto()
    CLOSED = auto()


TRANSITIONS: Final = {
    State.OPEN: frozenset({State.CLOSING, State.CLOSED}),
    State.CLOSING: frozenset({State.CLOSED}),
    State.CLOSED: frozenset[State](),
}
"""The states that may follow."""

_OPEN: Final = State.OPEN


class TlsConnection(Protocol):
    """The protocol object on top of a TlsTransport; implemented by Connection."""

    buffer: ReceiveBuffer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note that the handshake is complete."""
        ...

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next bytes."""
        ...

    def buffer_updated(self, nbytes: int) -> None:
        """Accept bytes that were written to the memory."""
        ...

    def eof_received(self) -> bool:
        """Note that no bytes follow."""
        ...

    def pause_writing(self) -> None:
        """Note that the transport is above its high-water mark."""
        ...

    def resume_writing(self) -> None:
        """Note that the transport is below its low-water mark."""
        ...

    def fail(self, reason: str) -> None:
        """Log `reason` and close."""
        ...

    def connection_lost(self, exc: Exception | None) -> None:
        """Note that the transport has closed."""
        ...


class TlsTransport(asyncio.BufferedProtocol, asyncio.Transport):
    """The protocol of a plain transport, and the transport of a connection.

    `closed` has a result when the plain transport has closed.
    """

    __slots__ = (
        "_connection",
        "_has_socket_ended",
        "_is_end_reported",
        "_is_reading_paused",
        "_is_socket_paused",
        "_loop",
        "_low_water",
        "_memory",
        "_session",
        "_socket",
        "_state",
        "_transport",
        "closed",
    )

    def __init__(
        self,
        session: TlsSession,
        client_socket: socket.socket,
        memory: ReadMemory,
        connection: TlsConnection,
    ) -> None:
        """Create the protocol for the plain transport of `client_socket`, whose handshake is complete."""
        super().__init__()
        self._session = session
        self._socket = client_socket
        self._memory = memory
        self._connection: TlsConnection | None = connection
        self._transport: asyncio.Transport | None = None
        self._state = State.OPEN
        self._is_reading_paused = self._is_socket_paused = False
        self._has_socket_ended = False
        """Whether the client has closed its socket: no ciphertext follows."""
        self._is_end_reported = False
        """Whether `eof_received` of the connection was called."""
        self._low_water = 1
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()

    # ---- called by the plain transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the last records of the handshake, and deliver the plaintext that was received with it."""
        self._transport = cast(asyncio.Transport, transport)
        self._send_outgoing()
        if self._connection is not None:
            self._connection.connection_made(self)
        self._deliver()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory for the next ciphertext, after the bytes of an incomplete record."""
        return self._memory.after(self._session.rest)

    def buffer_updated(self, nbytes: int) -> None:
        """Decrypt `nbytes` further bytes of ciphertext, and deliver the plaintext."""
        session = self._session
        if self._has_stream_ended or self._state is not _OPEN:
            return
        session.receive(self._memory.view[: len(session.rest) + nbytes])
        self._deliver()

    def eof_received(self) -> bool:
        """Report the end after the bytes before it; return whether the plain transport stays open."""
        if self._state is _OPEN:
            self._has_socket_ended = True
            self._deliver()
        return self._state is _OPEN

    def pause_writing(self) -> None:
        """Notify the connection that the plain transport is above its high-water mark."""
        if self._connection is not None:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Notify the connection that the plain transport is below its low-water mark."""
        if self._connection is not None:
            self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the connection, and release it."""
        self._transition(State.CLOSED)
        if not self.closed.done():
            self.closed.set_result(None)
        if self._connection is not None:
            self._connection.connection_lost(exc)
        # Break reference cycles.
        self._connection = self._transport = None

    # ---- called by the connection

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the TLS state as "ssl_object", and other values of the plain transport."""
        if name == "ssl_object":
            return self._session.tls
        return default if self._transport is None else self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Pass no bytes to the connection; records that were received before wait."""
        self._is_reading_paused = True
        self._pause_socket()

    def resume_reading(self) -> None:
        """Pass bytes to the connection again, those that wait first."""
        self._is_reading_paused = False
        if self._session.has_unread or self._has_stream_ended:
            # Not within this call, which the connection makes while it handles frames.
            self._loop.call_soon(self._deliver)
        else:
            self._resume_socket()

    def receive_available(self) -> None:
        """Receive the bytes that the socket has, although it is not enough for the current frame."""
        self._set_low_water(1)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypt `data` and send it."""
        if self._state is not _OPEN:
            return
        if len(data) <= WRITE_BYTES:
            if data:
                self._session.write(data)
                self._send_outgoing()
            return
        view = memoryview(data)
        for start in range(0, len(view), WRITE_BYTES):
            self._session.write(view[start : start + WRITE_BYTES])
            self._send_outgoing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the high-water mark and the low-water mark of unsent ciphertext."""
        if self._transport is not None:
            self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Return the number of unsent bytes of ciphertext."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def is_closing(self) -> bool:
        """Return whether the transport closes or has closed."""
        return self._state is not _OPEN

    def close(self) -> None:
        """Close when all written bytes and close_notify are sent."""
        if self._state is _OPEN and self._transport is not None:
            self._session.write_close_notify()
            self._send_outgoing()
            self._transition(State.CLOSING)
            self._transport.close()

    def abort(self) -> None:
        """Close at once; unsent bytes are lost."""
        if self._state is _OPEN:
            self._transition(State.CLOSING)
        if self._transport is not None:
            self._transport.abort()

    # ---- inside

    def _transition(self, state: State) -> None:
        assert state in TRANSITIONS[self._state], f"{self._state.name} -> {state.name}"
        self._state = state

    @property
    def _has_stream_ended(self) -> bool:
        """Whether no plaintext follows that which was received."""
        return self._session.has_peer_closed or self._has_socket_ended

    def _deliver(self) -> None:
        """Pass plaintext to the connection, until all is read, reading is paused, or the transport closes."""
        session, connection = self._session, self._connection
        if connection is None or self._is_end_reported:
            return
        try:
            while session.has_unread and self._state is _OPEN and not self._is_reading_paused:
                count = session.read_into(connection.get_buffer(-1))
                if count:
                    connection.buffer_updated(count)
                if session.needs_records:
                    # These were RECORDS_MAX small records, which take up to 1 ms: other connections are next.
                    self._pause_socket()
                    self._loop.call_soon(self._deliver)
                    return
        except InvalidRecordsError as error:
            connection.fail(f"its TLS records are invalid: {error}")
            return
        if self._state is not _OPEN:
            return
        if self._has_stream_ended:
            if not session.has_unread and not self._is_reading_paused:
                self._report_end(connection)
            return
        # For example the KeyUpdate that is the response to a KeyUpdate of the client.
        self._send_outgoing()
        if not session.has_unread:
            # Also while reading is paused: the mark is from before the last frames.
            missing = session.missing_bytes(connection.buffer.missing_bytes())
            self._set_low_water(min(missing, LOW_WATER_MAX) if missing >= LOW_WATER_MIN else 1)
            if not self._is_reading_paused:
                self._resume_socket()

    def _report_end(self, connection: TlsConnection) -> None:
        """Notify the connection that no bytes follow; it closes when the last requests are complete."""
        self._is_end_reported = True
        self._pause_socket()
        if not connection.eof_received():
            self.close()

    def _pause_socket(self) -> None:
        if not self._is_socket_paused and self._transport is not None:
            self._is_socket_paused = True
            self._transport.pause_reading()

    def _resume_socket(self) -> None:
        # The plain transport would report its end again.
        if self._is_socket_paused and self._transport is not None and not self._has_stream_ended:
            self._is_socket_paused = False
            self._transport.resume_reading()

    def _send_outgoing(self) -> None:
        ciphertext = self._session.take_outgoing()
        if ciphertext and self._transport is not None:
            self._transport.write(ciphertext)

    def _set_low_water(self, byte_count: int) -> None:
        """Let the kernel report the socket when it has `byte_count` bytes, or the client has closed."""
        if byte_count != self._low_water:
            self._low_water = byte_count
            # The plain transport may have closed the socket.
            with contextlib.suppress(OSError):
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, byte_count)
