"""The TLS handshake of one accepted socket, before the event loop gets a transport for it.

    HELLO      no TLS state exists before the first record of the client is complete, or the kernel has no
               memory for the rest of it
    SESSION    OpenSSL and the client exchange records
    COMPLETE   the session is ready for a TlsTransport
    REFUSED    the handshake has failed: an alert is sent, and further bytes are dropped

Legal transitions:

    HELLO      SESSION
    SESSION    COMPLETE, REFUSED

I/O: one socket, which is non-blocking. `advance` receives at most READ_BYTES.
"""

from __future__ import annotations

import contextlib
import socket
import ssl
from enum import Enum, auto
from typing import Final

from tidelog.broker.network.tls_session import HEADER_BYTES, RECORD_BYTES_MAX, TlsSession

READ_BYTES: Final = 64 * 1024
"""The ciphertext of one read: to decrypt it takes about 3 ms if each record has one byte."""

_HANDSHAKE_TYPE: Final = 22


class State(Enum):
    """The state of a handshake; the head of the file describes each state."""

    HELLO = auto()
    SESSION = auto()
    COMPLETE = auto()
    REFUSED = auto()


class NotTlsError(ConnectionError):
    """The first bytes of a client are not those of TLS."""


class ReadMemory:
    """The memory for the ciphertext of one read, which the sockets of an event loop share.

    It is filled and used in one step.
    """

    __slots__ = ("view",)

    def __init__(self) -> None:
        self.view = memoryview(bytearray(RECORD_BYTES_MAX + READ_BYTES))

    def after(self, rest: bytes) -> memoryview:
        """Copy the bytes of an incomplete record to the start; return the memory for what follows them."""
        size = len(rest)
        self.view[:size] = rest
        return self.view[size : size + READ_BYTES]


class TlsHandshake:
    """The server side of one handshake; `session` exists from the state SESSION on."""

    __slots__ = ("_awaited_bytes", "_context", "_memory", "_unsent", "client_socket", "session", "state")

    def __init__(self, context: ssl.SSLContext, client_socket: socket.socket, memory: ReadMemory) -> None:
        self._context = context
        self._memory = memory
        self._unsent = b""
        self.client_socket = client_socket
        self.session: TlsSession | None = None
        self.state = State.HELLO
        self._awaited_bytes = HEADER_BYTES
        """The number of bytes with which the kernel is to report the socket, in the state HELLO."""
        self._set_low_water(HEADER_BYTES)

    @property
    def needs_writable(self) -> bool:
        """Whether the next step is to send, otherwise to receive."""
        return bool(self._unsent)

    def advance(self) -> None:
        """Use what the socket has.

        Errors: ssl.SSLError if the handshake has failed: then the state is REFUSED. NotTlsError, or another
        OSError if the client has disconnected: then the socket is useless.
        """
        try:
            if self._unsent:
                self._send(b"")
            elif self.state is State.REFUSED:
                self._receive(self._memory.view)
            else:
                self._continue()
        except (BlockingIOError, InterruptedError):
            pass

    def _continue(self) -> None:
        session = self._session_after_hello() if self.session is None else self.session
        if session is None:
            return
        count = self._receive(self._memory.after(session.rest))
        session.receive(self._memory.view[: len(session.rest) + count])
        try:
            is_complete = session.continue_handshake()
        except ssl.SSLError:
            self._refuse(session)
            raise
        if is_complete:
            # The transport sends the last records of this side.
            self.state = State.COMPLETE
        else:
            self._send(session.take_outgoing())

    def _session_after_hello(self) -> TlsSession | None:
        """Create the session if the first record of the client is complete; its bytes stay in the socket.

        A socket that is reported again with fewer bytes has a client that has closed, a full receive buffer,
        or a kernel with little memory. The session then reads them, and the next read shows which.
        """
        received = self.client_socket.recv(HEADER_BYTES + RECORD_BYTES_MAX, socket.MSG_PEEK)
        if not received:
            raise ConnectionResetError("the client has closed the connection")
        record_bytes = HEADER_BYTES
        if len(received) >= HEADER_BYTES:
            record_bytes += _record_length(received)
        if len(received) < record_bytes and record_bytes > self._awaited_bytes:
            self._awaited_bytes = record_bytes
            self._set_low_water(record_bytes)
            return None
        self._set_low_water(1)
        self.session = TlsSession(self._context)
        self.state = State.SESSION
        return self.session

    def _refuse(self, session: TlsSession) -> None:
        """Send the alert with the reason, but do not close.

        A client of TLS 1.3 sends its first request before it has the alert. Closing a socket with unread data
        would reset the connection, and the client would lose the alert. It would then try again until its
        deadline, because a wrong certificate would look like a broker that has stopped.
        """
        self.state = State.REFUSED
        # The client may have disconnected; an alert that the kernel does not accept at once is lost.
        with contextlib.suppress(OSError):
            self.client_socket.send(session.take_outgoing())
            self.client_socket.shutdown(socket.SHUT_WR)

    def _receive(self, memory: memoryview) -> int:
        count = self.client_socket.recv_into(memory)
        if not count:
            raise ConnectionResetError("the client has closed the connection")
        return count

    def _send(self, data: bytes) -> None:
        unsent = self._unsent + data
        self._unsent = unsent
        if unsent:
            self._unsent = unsent[self.client_socket.send(unsent) :]

    def _set_low_water(self, byte_count: int) -> None:
        self.client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, byte_count)


def _record_length(data: bytes) -> int:
    """Return the length of the contents of a first record. Errors: NotTlsError if it is none."""
    kind, major, length = data[0], data[1], int.from_bytes(data[3:5], "big")
    if kind != _HANDSHAKE_TYPE or major != 3 or not 0 < length <= RECORD_BYTES_MAX - HEADER_BYTES:
        raise NotTlsError(
            "the client does not use TLS (its security.protocol is PLAINTEXT or SASL_PLAINTEXT)"
        )
    return length
