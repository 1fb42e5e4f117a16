"""Handshakes that are incomplete, slow, invalid or too many, and guessed passwords (issue 13)."""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

from tests.harness.hostile.attack import MEBIBYTE, Attack
from tests.harness.hostile.attack_context import AttackContext
from tests.harness.hostile.frames import request_frame
from tests.harness.hostile.target import USER
from tidelog.protocol.codec import decode
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.metadata import MetadataRequest
from tidelog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tidelog.security.plain import encode_plain

CONNECTIONS: Final = 1000
GUESSERS: Final = 200
BYTE_PAUSE_S: Final = 0.2
RECEIVED_BYTES: Final = 4096
RESPONSE_HEADER_BYTES: Final = 8
HANDSHAKE_VERSION: Final = 1
AUTHENTICATE_VERSION: Final = 1
FIRST_SCRAM: Final = b"n,,n=%s,r=nonce%d"
GARBAGE: Final = (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"\x16\x03\x01\x00\x05abcde", b"\xff" * 20_000)


def _client_hello() -> bytes:
    """Return the first bytes of a client that uses TLS."""
    tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = tls_context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def _stay_half_open(context: AttackContext) -> None:
    hello = _client_hello()
    beginnings = (b"", hello[:1], hello[:100], hello)
    context.begin()
    for number in range(context.size(CONNECTIONS, 20)):
        context.connect(context.target.tls_address).sendall(beginnings[number % len(beginnings)])
    context.hold()


def _send_garbage(context: AttackContext) -> None:
    context.begin()
    for number in count():
        connection = context.connect(context.target.tls_address)
        connection.sendall(GARBAGE[number % len(GARBAGE)])
        try:
            while connection.recv(RECEIVED_BYTES):
                pass
        except TimeoutError:
            context.expect(False, "garbage instead of a handshake does not end the connection")
        except ConnectionError:
            pass
        context.close_connection(connection)
        if context.has_ended:
            context.note(f"{number + 1:,} handshakes of garbage")
            return


def _send_slowly(context: AttackContext) -> None:
    hello = _client_hello()
    context.begin()
    sockets = [context.connect(context.target.tls_address) for _ in range(context.size(CONNECTIONS, 20))]
    for position in range(len(hello)):
        for connection in sockets:
            connection.sendall(hello[position : position + 1])
        if context.has_ended:
            return
        time.sleep(BYTE_PAUSE_S * context.scale)


def _complete_handshakes(context: AttackContext) -> None:
    """Complete handshakes, for each of which the broker signs with its private key."""
    tls_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls_context.check_hostname, tls_context.verify_mode = False, ssl.CERT_NONE
    context.begin()
    for number in count(1):
        connection = context.connect(context.target.tls_address)
        with tls_context.wrap_socket(connection.dup()):
            pass
        context.close_connection(connection)
        if context.has_ended:
            context.note(f"{number:,} handshakes")
            return


def _framed_handshake(mechanism: str) -> bytes:
    return request_frame(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)


def _framed_message(message: bytes) -> bytes:
    return request_frame(SaslAuthenticateRequest(auth_bytes=message), AUTHENTICATE_VERSION)


def _plain_guess(number: int) -> bytes:
    return _framed_handshake("PLAIN") + _framed_message(encode_plain(USER, f"guess-{number}"))


def _scram_guess(number: int) -> bytes:
    """Return the first message for a user that may not exist, and a proof without waiting for the nonce."""
    first = FIRST_SCRAM % (f"user-{number}".encode(), number)
    proof = b"c=biws,r=nonce%d,p=%s" % (number, b"A" * 43 + b"=")
    return _framed_handshake("SCRAM-SHA-256") + _framed_message(first) + _framed_message(proof)


def _guess(guess: Callable[[int], bytes], context: AttackContext) -> None:
    """Guess on many connections at the same time; each connection is for one guess."""
    numbers, width = count(), context.size(GUESSERS, 10)
    guesses, successes = 0, 0
    with selectors.DefaultSelector() as selector:
        received: dict[socket.socket, bytes] = {}

        def start() -> None:
            connection = context.connect(context.target.sasl_address)
            connection.sendall(guess(next(numbers)))
            received[connection] = b""
            selector.register(connection, selectors.EVENT_READ)

        context.begin()
        started_s = time.monotonic()
        for _ in range(width):
            start()
        while guesses < width or not context.has_ended:
            events = selector.select(5.0)
            context.expect(events, "no response to a guess within 5 s")
            if not events:
                return
            for key, _ in events:
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                data = _receive_all(connection)
                received[connection] += data
                if data:
                    continue
                successes += _is_admitted(received.pop(connection))
                guesses += 1
                selector.unregister(connection)
                context.close_connection(connection)
                if not context.has_ended:
                    start()
    context.expect(not successes, f"{successes} guesses were admitted")
    per_s = guesses / (time.monotonic() - started_s)
    context.note(f"{guesses:,} guesses on {width} connections, {per_s:,.0f} per s")
    context.expect(per_s <= width / context.target.failure_delay_s, "guesses are not delayed")


def _receive_all(connection: socket.socket) -> bytes:
    try:
        return connection.recv(RECEIVED_BYTES)
    except ConnectionError:
        return b""


def _is_admitted(received: bytes) -> bool:
    """Return whether the last of the received responses is a successful authentication."""
    last = b""
    while received:
        (size,) = struct.unpack_from(">i", received)
        last, received = received[4 : 4 + size], received[4 + size :]
    if not last:
        return False
    response = decode(SaslAuthenticateResponse, memoryview(last)[4:], AUTHENTICATE_VERSION)
    return response.error_code == ErrorCode.NONE


def _send_before_authentication(context: AttackContext) -> None:
    """Send large frames, and requests that need an authenticated client."""
    frames = (
        struct.pack(">i", 100 * MEBIBYTE) + b"\0\x24" * 1000,
        _framed_handshake("PLAIN") + _framed_message(bytes(600_000)),
        request_frame(MetadataRequest(topics=None), 9),
        _framed_handshake("GSSAPI"),
        _framed_handshake("PLAIN") * 3,
    )
    context.begin()
    for number in count():
        connection = context.connect(context.target.sasl_address)
        try:
            connection.sendall(frames[number % len(frames)])
            while connection.recv(RECEIVED_BYTES):
                pass
        except TimeoutError:
            context.expect(False, f"frame {number % len(frames)} does not end the connection")
        except ConnectionError:
            pass
        context.close_connection(connection)
        if context.has_ended and number >= len(frames):
            context.note(f"{number + 1:,} connections")
            return


ATTACKS = (
    Attack(
        name="half-open-handshakes",
        item="issue 13",
        actions="1,000 connections send nothing, a part of a client hello, or all of it and nothing more",
        run=_stay_half_open,
    ),
    Attack(
        name="garbage-handshakes",
        item="issue 13",
        actions="connections to the TLS listener send something else, one after the other",
        run=_send_garbage,
    ),
    Attack(
        name="slow-handshakes",
        item="issue 13",
        actions="1,000 connections send a client hello a byte at a time",
        run=_send_slowly,
    ),
    Attack(
        name="complete-handshakes",
        item="issue 13",
        actions="complete TLS handshakes without a request, one after the other",
        run=_complete_handshakes,
    ),
    Attack(
        name="guessed-passwords",
        item="issue 13",
        actions="200 connections guess the password of a user, with PLAIN, without end",
        run=partial(_guess, _plain_guess),
    ),
    Attack(
        name="guessed-scram-users",
        item="issue 13",
        actions="200 connections guess users and proofs, with SCRAM, without end",
        run=partial(_guess, _scram_guess),
    ),
    Attack(
        name="requests-before-authentication",
        item="issue 13",
        actions="large frames, requests and handshakes that are not allowed before authentication",
        run=_send_before_authentication,
    ),
)
