"""The context of one attack: its connections, its time limit, its size and its findings."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import Final, TypeVar

from tests.harness.hostile.target import Target, TargetError
from tests.support.network.raw_client import RawClient
from tidelog.protocol.schema import ApiMessage

ResponseT = TypeVar("ResponseT", bound=ApiMessage)

PAUSE_S: Final = 0.005
RESPONSE_TIMEOUT_S: Final = 60.0


class AttackContext:
    """The connections, limits and findings of one attack on `target`.

    The attack lasts `seconds`. `scale` is 1 for the full size, and less for the short form.
    """

    def __init__(self, target: Target, seconds: float, scale: float = 1.0) -> None:
        self.target = target
        self.scale = scale
        self.failures: list[str] = []
        """Failures of the broker, except measured values."""
        self.notes: list[str] = []
        self.started_ns = 0
        self._seconds = seconds
        self._deadline = 0.0
        self._sockets: list[socket.socket] = []
        self._clients: list[RawClient] = []

    def begin(self) -> None:
        """Start the measurement; the attack calls this after its preparation."""
        self.started_ns = time.monotonic_ns()
        self._deadline = time.monotonic() + self._seconds

    @property
    def has_ended(self) -> bool:
        """Return whether the attack's time has ended."""
        assert self.started_ns, "the attack has not started"
        return time.monotonic() >= self._deadline

    def size(self, full: int, least: int = 1) -> int:
        """Return `full` in the long form, a share of it but at least `least` in the short form."""
        return max(least, int(full * self.scale))

    def hold(self) -> None:
        """Keep all connections as they are until the attack's time has ended."""
        while not self.has_ended:
            time.sleep(PAUSE_S)

    def pause(self) -> None:
        """Wait for a short time, as between two attempts."""
        time.sleep(PAUSE_S)

    # ---- connections

    def connect(
        self, address: tuple[str, int] | None = None, *, receive_buffer_bytes: int | None = None
    ) -> socket.socket:
        """Connect, by default to the listener without TLS; the socket is closed at the end of the attack."""
        connection = socket.socket()
        if receive_buffer_bytes is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        connection.settimeout(RESPONSE_TIMEOUT_S)
        try:
            connection.connect(self.target.address if address is None else address)
        except OSError:
            connection.close()
            raise
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sockets.append(connection)
        return connection

    def client(self) -> RawClient:
        """Connect a client that sends requests and reads responses."""
        client = RawClient(*self.target.address, timeout_s=RESPONSE_TIMEOUT_S)
        self._clients.append(client)
        return client

    def close_connection(self, connection: socket.socket) -> None:
        """Close one socket now."""
        connection.close()
        self._sockets.remove(connection)

    def disconnect_all(self) -> None:
        """Close every connection of the attacker."""
        for client in self._clients:
            client.close()
        for connection in self._sockets:
            with suppress(OSError):
                connection.close()
        self._clients.clear()
        self._sockets.clear()

    # ---- requests

    def exchange(self, client: RawClient, frame: bytes) -> memoryview | None:
        """Send `frame` and return its response, or None if the broker closed the connection."""
        try:
            client.send(frame)
        except ConnectionError:
            client.closed = True
            return None
        return client.receive()

    def repeat(self, frame: bytes, client: RawClient | None = None) -> int:
        """Send `frame` again after each response until the time has ended, on new connections if necessary.

        Return the number of responses.
        """
        client = client or self.client()
        responses = closed = 0
        started_s = time.monotonic()
        while True:
            try:
                response = self.exchange(client, frame)
            except TimeoutError:
                self.notes.append(f"no response within {time.monotonic() - started_s:.0f} s")
                return responses
            if response is None:
                closed += 1
                client.close()
                client = self.client()
            else:
                responses += 1
            if self.has_ended:
                break
        elapsed_ms = (time.monotonic() - started_s) * 1000 / max(responses + closed, 1)
        verb = "closed" if closed > responses else "a response"
        self.notes.append(f"{len(frame):,} bytes, {verb} in {elapsed_ms:,.0f} ms")
        return responses

    # ---- findings

    def expect(self, condition: object, failure: str) -> None:
        """Record `failure` unless `condition` is true."""
        if not condition:
            self.failures.append(failure)

    def expect_topic_creation(self) -> None:
        """Record a failure if the broker cannot create a topic; for use after `disconnect_all`."""
        try:
            self.target.create_topic("after-the-attack", 1)
        except (OSError, TargetError) as error:
            self.failures.append(f"no topic can be created after the attack: {error}")

    def note(self, text: str) -> None:
        """Add a remark to the row."""
        self.notes.append(text)
