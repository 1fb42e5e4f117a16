"""One handshake on a socket: its states, partial sends, and clients that fail."""

from __future__ import annotations

import select
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.security.tls_listener import context_that_trusts, tls_server
from tidelog.broker.network.tls_handshake import NotTlsError, ReadMemory, State, TlsHandshake
from tidelog.security.certificate_authority import Authority


class SlowSocket(socket.socket):
    """Accepts 100 bytes at a time."""

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        return super().send(data[:100], flags)


class TlsClient:
    """The client's TLS state, whose socket is non-blocking."""

    def __init__(self, client_socket: socket.socket, context: ssl.SSLContext) -> None:
        self.socket = client_socket
        self._incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self.outgoing, server_hostname="localhost")

    def advance(self) -> None:
        """Use what the socket has."""
        try:
            self._incoming.write(self.socket.recv(100_000))
        except BlockingIOError:
            pass
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            pass
        self.socket.sendall(self.outgoing.read())

    def first_bytes(self) -> bytes:
        """Return the client hello."""
        with pytest.raises(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()


@pytest.fixture
def sockets() -> Iterator[tuple[SlowSocket, socket.socket]]:
    with connected_sockets() as both:
        yield both


@contextmanager
def connected_sockets(receive_buffer_bytes: int = 0) -> Iterator[tuple[SlowSocket, socket.socket]]:
    """Return the sockets of a server and its client; 0 bytes are the default of the system."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        if receive_buffer_bytes:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    server = SlowSocket(fileno=accepted.detach())
    with server, client:
        server.setblocking(False)
        client.setblocking(False)
        yield server, client


def handshake_of(server: socket.socket, **settings: str) -> TlsHandshake:
    return TlsHandshake(tls_server(**settings).context, server, ReadMemory())


def test_a_handshake_completes_although_the_socket_accepts_few_bytes_at_a_time(
    sockets: tuple[SlowSocket, socket.socket],
) -> None:
    server, client = sockets
    handshake, tls_client = handshake_of(server), TlsClient(client, context_that_trusts())
    states, waited_to_send = [handshake.state], False
    for _ in range(1_000):
        tls_client.advance()
        handshake.advance()
        waited_to_send |= handshake.needs_writable
        if handshake.state is not states[-1]:
            states.append(handshake.state)
        if handshake.state is State.COMPLETE:
            break
    assert states == [State.HELLO, State.SESSION, State.COMPLETE] and waited_to_send


def test_no_tls_state_exists_before_the_client_hello_is_complete(
    sockets: tuple[SlowSocket, socket.socket],
) -> None:
    server, client = sockets
    handshake, hello = handshake_of(server), TlsClient(client, context_that_trusts()).first_bytes()
    client.sendall(hello[:-1])
    handshake.advance()
    assert handshake.session is None
    assert server.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT) == len(hello)
    client.sendall(hello[-1:])
    handshake.advance()
    assert handshake.session is not None and handshake.state is State.SESSION


@pytest.mark.parametrize("sent", [0, 3, 100])
def test_a_client_that_closes_before_its_hello_is_complete_has_disconnected(
    sockets: tuple[SlowSocket, socket.socket], sent: int
) -> None:
    server, client = sockets
    handshake, hello = handshake_of(server), TlsClient(client, context_that_trusts()).first_bytes()
    client.sendall(hello[:sent])
    client.close()
    with pytest.raises(ConnectionResetError, match="the client has closed the connection"):
        for _ in range(3):
            handshake.advance()


def test_a_client_hello_that_is_larger_than_the_receive_buffer_is_read_in_parts() -> None:
    """The kernel then reports the socket although fewer bytes have arrived than were requested."""
    context = context_that_trusts()
    context.set_alpn_protocols([f"protocol-{number:04}" for number in range(800)])
    with connected_sockets(receive_buffer_bytes=4096) as (server, client):
        hello = TlsClient(client, context).first_bytes()
        assert len(hello) > 10_000
        client.sendall(hello)
        handshake = handshake_of(server)
        for step_count in range(100):
            if handshake.needs_writable:
                break
            assert select.select([server], [], [], 5)[0], f"nothing to read after {step_count} steps"
            handshake.advance()
    assert handshake.state is State.SESSION and handshake.needs_writable


def test_other_bytes_than_those_of_tls_are_rejected(sockets: tuple[SlowSocket, socket.socket]) -> None:
    server, client = sockets
    client.sendall(b"GET / HTTP/1.1\r\n\r\n")
    with pytest.raises(NotTlsError, match="does not use TLS"):
        handshake_of(server).advance()


def test_without_bytes_nothing_changes(sockets: tuple[SlowSocket, socket.socket]) -> None:
    handshake = handshake_of(sockets[0])
    handshake.advance()
    assert handshake.state is State.HELLO


def test_after_a_refusal_the_bytes_of_the_client_are_dropped_until_it_closes(
    sockets: tuple[SlowSocket, socket.socket],
) -> None:
    server, client = sockets
    handshake = handshake_of(server)
    tls_client = TlsClient(client, context_that_trusts(authority=Authority.create()))
    # The client rejects the certificate of the server, and sends an alert.
    with pytest.raises(ssl.SSLCertVerificationError):
        for _ in range(1_000):
            tls_client.advance()
            handshake.advance()
    client.sendall(tls_client.outgoing.read())
    with pytest.raises(ssl.SSLError, match=r"(?i)unknown ca"):
        for _ in range(1_000):
            handshake.advance()
    assert handshake.state is State.REFUSED
    client.sendall(b"a first request")
    handshake.advance()
    client.close()
    with pytest.raises(ConnectionError):
        for _ in range(3):
            handshake.advance()
