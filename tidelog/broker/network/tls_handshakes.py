"""Opens TLS connections on the accepted sockets of one listener.

    waiting for the client hello   no TLS state exists before the first record of the client is complete
    waiting for a turn             few handshakes start in a turn of the loop: each signs with a private key
    handshake                      a TlsTransport, which the connection gets at the end
    refusal                        after a failure: an alert is sent, and further bytes are dropped

A client that sends something else than TLS, is slow, or fails, costs its own socket only.

Bounds: PENDING_MAX sockets; when there are more, the oldest of the address with the most sockets is closed.
STARTS_PER_TURN handshakes start in a turn of the loop. TIMEOUT_S is the time for all steps together, and
REFUSAL_TIMEOUT_S that of the refusal.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

from tidelog.broker.network.connection import Connection
from tidelog.broker.network.resources import NetworkResources
from tidelog.broker.network.tls_transport import ReadMemory, TlsTransport
from tidelog.security.tls.server import TlsServer

logger = logging.getLogger(__name__)

PENDING_MAX: Final = 1_000
STARTS_PER_TURN: Final = 4
TIMEOUT_S: Final = 10.0
REFUSAL_TIMEOUT_S: Final = 1.0

# A TLS record begins with its type, the version and the length of its contents.
_HEADER_BYTES: Final = 5
_HANDSHAKE_TYPE: Final = 22
_RECORD_BYTES_MAX: Final = 16_384 + 256


class NotTlsError(ConnectionError):
    """The first bytes of a client are not those of TLS."""


class TlsHandshakes:
    """Owns the sockets of one listener until their handshakes are complete."""

    def __init__(self, listener: str, tls: TlsServer, resources: NetworkResources) -> None:
        self._listener = listener
        self._tls = tls
        self._resources = resources
        self._authentications = resources.counters.authentications[listener]
        self._loop = asyncio.get_running_loop()
        self._memory = ReadMemory()
        self._tasks: dict[asyncio.Task[None], str] = {}
        """The tasks of the sockets in the order of arrival, with the address of each client."""
        self._per_address: Counter[str] = Counter()
        self._turns: deque[asyncio.Future[None]] = deque()
        """The handshakes that wait for a turn."""

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, client_socket: socket.socket, create_connection: Callable[[], Connection]) -> None:
        """Complete the handshake of an accepted socket in a task."""
        try:
            address = str(client_socket.getpeername()[0])
        except OSError:
            client_socket.close()
            return
        if len(self._tasks) >= PENDING_MAX:
            self._close_one()
        task = self._loop.create_task(self._open(client_socket, create_connection))
        self._tasks[task] = address
        self._per_address[address] += 1
        task.add_done_callback(self._on_done)

    def stop(self) -> None:
        """Close the sockets whose handshakes are incomplete."""
        for task in self._tasks:
            task.cancel()

    def _close_one(self) -> None:
        """Close the oldest socket of the address that has the most."""
        crowded, count = self._per_address.most_common(1)[0]
        oldest = next(task for task, address in self._tasks.items() if address == crowded)
        self._log("Listener %s: closing the oldest of %d incomplete TLS handshakes of %s", count, crowded)
        self._remove(oldest)
        oldest.cancel()

    def _remove(self, task: asyncio.Task[None]) -> str:
        """Stop counting a socket; return its address, "" if it was removed before."""
        address = self._tasks.pop(task, "")
        if address:
            self._per_address[address] -= 1
            if not self._per_address[address]:
                del self._per_address[address]
        return address

    def _on_done(self, task: asyncio.Task[None]) -> None:
        address = self._remove(task)
        if task.cancelled():
            self._authentications.on_failure(is_reauthentication=False)
            return
        error = task.exception()
        if error is not None:
            self._authentications.on_failure(is_reauthentication=False)
            is_late = isinstance(error, TimeoutError)
            reason = f"not complete after {TIMEOUT_S:g} s" if is_late else str(error) or type(error).__name__
            self._log("Listener %s: the TLS handshake of %s failed: %s", address, reason)

    def _log(self, message: str, *arguments: object) -> None:
        self._resources.log_limit.log(logger, logging.INFO, message, self._listener, *arguments)

    async def _open(self, client_socket: socket.socket, create_connection: Callable[[], Connection]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            try:
                await self._wait_for_client_hello(client_socket)
                await self._wait_for_turn()
            except BaseException:
                client_socket.close()
                raise
            # From here on the transport owns the socket.
            transport = TlsTransport(self._tls.context, client_socket, self._memory, create_connection)
            try:
                await self._loop.connect_accepted_socket(lambda: transport, client_socket)
                error = await transport.handshake
                if error is not None:
                    await self._wait_for_refused(transport)
                    raise error
            except BaseException:
                transport.abort()
                raise

    async def _wait_for_refused(self, transport: TlsTransport) -> None:
        """Wait until a client that has got an alert closes its socket."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(REFUSAL_TIMEOUT_S):
                await transport.closed

    async def _wait_for_client_hello(self, client_socket: socket.socket) -> None:
        """Wait until the first record of the client is complete; its bytes stay in the socket."""
        needed = _HEADER_BYTES
        while True:
            # The socket is readable only when it has this number of bytes, or the peer has closed.
            client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, needed)
            await self._wait_until_readable(client_socket)
            received = client_socket.recv(_HEADER_BYTES + _RECORD_BYTES_MAX, socket.MSG_PEEK)
            if len(received) < needed:
                raise ConnectionResetError("the client has closed the connection")
            needed = _HEADER_BYTES + _record_length(received)
            if len(received) >= needed:
                break
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)

    async def _wait_until_readable(self, client_socket: socket.socket) -> None:
        """Wait until the socket has SO_RCVLOWAT bytes, or the peer has closed."""
        readable = self._loop.create_future()
        self._loop.add_reader(client_socket.fileno(), _complete, readable)
        try:
            await readable
        finally:
            self._loop.remove_reader(client_socket.fileno())

    async def _wait_for_turn(self) -> None:
        """Wait until the handshake may start; at most STARTS_PER_TURN start in a turn of the loop."""
        turn = self._loop.create_future()
        if not self._turns:
            self._loop.call_soon(self._start_next)
        self._turns.append(turn)
        await turn

    def _start_next(self) -> None:
        for _ in range(min(STARTS_PER_TURN, len(self._turns))):
            _complete(self._turns.popleft())
        if self._turns:
            self._loop.call_soon(self._start_next)


def _record_length(data: bytes) -> int:
    """Return the length of the contents of a first record. Errors: NotTlsError if it is none."""
    kind, major, length = data[0], data[1], int.from_bytes(data[3:5], "big")
    if kind != _HANDSHAKE_TYPE or major != 3 or not 0 < length <= _RECORD_BYTES_MAX:
        raise NotTlsError(
            "the client does not use TLS (its security.protocol is PLAINTEXT or SASL_PLAINTEXT)"
        )
    return length


def _complete(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
