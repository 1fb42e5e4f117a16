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
from tests.harness.hostile.attack_context import Scene
from tests.harness.hostile.frames import framed
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    side = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()


def _stay_half_open(scene: Scene) -> None:
    hello = _client_hello()
    beginnings = (b"", hello[:1], hello[:100], hello)
    scene.begin()
    for number in range(scene.size(CONNECTIONS, 20)):
        scene.connect(scene.target.tls_address).sendall(beginnings[number % len(beginnings)])
    scene.hold()


def _send_garbage(scene: Scene) -> None:
    scene.begin()
    for number in count():
        connected = scene.connect(scene.target.tls_address)
        connected.sendall(GARBAGE[number % len(GARBAGE)])
        try:
            while connected.recv(RECEIVED_BYTES):
                pass
        except TimeoutError:
            scene.expect(False, "garbage instead of a handshake does not end the connection")
        except ConnectionError:
            pass
        scene.drop(connected)
        if scene.is_over:
            scene.note(f"{number + 1:,} handshakes of garbage")
            return


def _send_slowly(scene: Scene) -> None:
    hello = _client_hello()
    scene.begin()
    sockets = [scene.connect(scene.target.tls_address) for _ in range(scene.size(CONNECTIONS, 20))]
    for position in range(len(hello)):
        for connected in sockets:
            connected.sendall(hello[position : position + 1])
        if scene.is_over:
            return
        time.sleep(BYTE_PAUSE_S * scene.scale)


def _complete_handshakes(scene: Scene) -> None:
    """Complete handshakes, for each of which the broker signs with its private key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    scene.begin()
    for number in count(1):
        connected = scene.connect(scene.target.tls_address)
        with context.wrap_socket(connected.dup()):
            pass
        scene.drop(connected)
        if scene.is_over:
            scene.note(f"{number:,} handshakes")
            return


def _framed_handshake(mechanism: str) -> bytes:
    return framed(SaslHandshakeRequest(mechanism=mechanism), HANDSHAKE_VERSION)


def _framed_message(message: bytes) -> bytes:
    return framed(SaslAuthenticateRequest(auth_bytes=message), AUTHENTICATE_VERSION)


def _plain_guess(number: int) -> bytes:
    return _framed_handshake("PLAIN") + _framed_message(encode_plain(USER, f"guess-{number}"))


def _scram_guess(number: int) -> bytes:
    """Return the first message for a user that may not exist, and a proof without waiting for the nonce."""
    first = FIRST_SCRAM % (f"user-{number}".encode(), number)
    proof = b"c=biws,r=nonce%d,p=%s" % (number, b"A" * 43 + b"=")
    return _framed_handshake("SCRAM-SHA-256") + _framed_message(first) + _framed_message(proof)


def _guess(guess: Callable[[int], bytes], scene: Scene) -> None:
    """Guess on many connections at the same time; each connection is for one guess."""
    numbers, width = count(), scene.size(GUESSERS, 10)
    guesses, admitted = 0, 0
    with selectors.DefaultSelector() as selector:
        received: dict[socket.socket, bytes] = {}

        def start() -> None:
            connected = scene.connect(scene.target.sasl_address)
            connected.sendall(guess(next(numbers)))
            received[connected] = b""
            selector.register(connected, selectors.EVENT_READ)

        scene.begin()
        started = time.monotonic()
        for _ in range(width):
            start()
        while guesses < width or not scene.is_over:
            events = selector.select(5.0)
            scene.expect(events, "no response to a guess within 5 s")
            if not events:
                return
            for key, _ in events:
                connected = key.fileobj
                assert isinstance(connected, socket.socket)
                data = _received(connected)
                received[connected] += data
                if data:
                    continue
                admitted += _is_admitted(received.pop(connected))
                guesses += 1
                selector.unregister(connected)
                scene.drop(connected)
                if not scene.is_over:
                    start()
    scene.expect(not admitted, f"{admitted} guesses were admitted")
    per_s = guesses / (time.monotonic() - started)
    scene.note(f"{guesses:,} guesses on {width} connections, {per_s:,.0f} per s")
    scene.expect(per_s <= width / scene.target.failure_delay_s, "guesses are not delayed")


def _received(connected: socket.socket) -> bytes:
    try:
        return connected.recv(RECEIVED_BYTES)
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


def _send_before_authentication(scene: Scene) -> None:
    """Send large frames, and requests that need an authenticated client."""
    frames = (
        struct.pack(">i", 100 * MEBIBYTE) + b"\0\x24" * 1000,
        _framed_handshake("PLAIN") + _framed_message(bytes(600_000)),
        framed(MetadataRequest(topics=None), 9),
        _framed_handshake("GSSAPI"),
        _framed_handshake("PLAIN") * 3,
    )
    scene.begin()
    for number in count():
        connected = scene.connect(scene.target.sasl_address)
        try:
            connected.sendall(frames[number % len(frames)])
            while connected.recv(RECEIVED_BYTES):
                pass
        except TimeoutError:
            scene.expect(False, f"frame {number % len(frames)} does not end the connection")
        except ConnectionError:
            pass
        scene.drop(connected)
        if scene.is_over and number >= len(frames):
            scene.note(f"{number + 1:,} connections")
            return


ATTACKS = (
    Attack(
        name="half-open-handshakes",
        item="issue 13",
        does="1,000 connections send nothing, a part of a client hello, or all of it and nothing more",
        run=_stay_half_open,
    ),
    Attack(
        name="garbage-handshakes",
        item="issue 13",
        does="connections to the TLS listener send something else, one after the other",
        run=_send_garbage,
    ),
    Attack(
        name="slow-handshakes",
        item="issue 13",
        does="1,000 connections send a client hello a byte at a time",
        run=_send_slowly,
    ),
    Attack(
        name="complete-handshakes",
        item="issue 13",
        does="complete TLS handshakes without a request, one after the other",
        run=_complete_handshakes,
    ),
    Attack(
        name="guessed-passwords",
        item="issue 13",
        does="200 connections guess the password of a user, with PLAIN, without end",
        run=partial(_guess, _plain_guess),
    ),
    Attack(
        name="guessed-scram-users",
        item="issue 13",
        does="200 connections guess users and proofs, with SCRAM, without end",
        run=partial(_guess, _scram_guess),
    ),
    Attack(
        name="requests-before-authentication",
        item="issue 13",
        does="large frames, requests and handshakes that are not allowed before authentication",
        run=_send_before_authentication,
    ),
)
