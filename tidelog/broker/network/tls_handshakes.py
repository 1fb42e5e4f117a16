"""Completes the TLS handshakes of the accepted sockets of one listener.

Hundreds of clients may begin, send or disconnect at the same time, and each handshake signs with a private
key. Therefore the SocketWatcher watches their sockets: it reports a few in each turn of the loop. Handshakes
whose time has ended are closed for TURN_NS in a turn. A client that does not send TLS, is slow, or fails
costs only its own socket.

Bounds: PENDING_MAX sockets; when there are more, the oldest of the address with the most sockets is closed.
TIMEOUT_S is the time from the accepted socket to the end of its handshake, and of a refusal.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.broker.network.resources import NetworkResources
from tidelog.broker.network.socket_watcher import READABLE, WRITABLE
from tidelog.broker.network.tls_handshake import ReadMemory, State, TlsHandshake
from tidelog.broker.network.tls_session import TlsSession
from tidelog.security.tls.server import TlsServer

logger = logging.getLogger(__name__)

PENDING_MAX: Final = 1_000
TURN_NS: Final = 1_000_000
TIMEOUT_S: Final = 10.0


class _Origin(NamedTuple):
    address: str
    deadline_s: float
    """The end of the handshake's time, by the clock of the event loop."""


class TlsHandshakes:
    """Owns the sockets of one listener until their handshakes are complete.

    Then it calls `on_complete` with the socket, its session, and the memory for reads.
    """

    def __init__(
        self,
        listener: str,
        tls: TlsServer,
        resources: NetworkResources,
        on_complete: Callable[[socket.socket, TlsSession, ReadMemory], None],
    ) -> None:
        self._listener = listener
        self._tls = tls
        self._clock = resources.clock
        self._watcher = resources.watcher
        self._log_limit = resources.log_limit
        self._authentications = resources.counters.authentications[listener]
        self._memory = ReadMemory()
        self._on_complete = on_complete
        self._loop = asyncio.get_running_loop()
        self._pending: dict[TlsHandshake, _Origin] = {}
        """All handshakes in the order of arrival, which is that of their deadlines."""
        self._per_address: Counter[str] = Counter()
        self._expiry: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._pending)

    def start(self, client_socket: socket.socket) -> None:
        """Begin the handshake of an accepted socket, which is non-blocking."""
        try:
            address = str(client_socket.getpeername()[0])
            handshake = TlsHandshake(self._tls.context, client_socket, self._memory)
        except OSError:
            client_socket.close()
            return
        if len(self._pending) >= PENDING_MAX:
            self._close_one()
        self._pending[handshake] = _Origin(address, self._loop.time() + TIMEOUT_S)
        self._per_address[address] += 1
        self._watch(handshake)
        if self._expiry is None:
            self._schedule_expiry()

    def stop(self) -> None:
        """Close the sockets whose handshakes are incomplete."""
        for handshake in list(self._pending):
            self._close(handshake)
        if self._expiry is not None:
            self._expiry.cancel()

    # ---- steps of a handshake

    def _watch(self, handshake: TlsHandshake) -> None:
        event = WRITABLE if handshake.needs_writable else READABLE
        self._watcher.watch(handshake.client_socket.fileno(), event, lambda _: self._advance(handshake))

    def _unwatch(self, handshake: TlsHandshake) -> None:
        for event in (READABLE, WRITABLE):
            self._watcher.unwatch(handshake.client_socket.fileno(), event)

    def _advance(self, handshake: TlsHandshake) -> None:
        waited_to_send = handshake.needs_writable
        try:
            handshake.advance()
        except ssl.SSLError as error:
            # The client still has to receive the alert.
            self._report(handshake, str(error))
        except OSError as error:
            if handshake.state is not State.REFUSED:
                self._report(handshake, str(error))
            self._close(handshake)
            return
        if handshake.state is State.COMPLETE and handshake.session is not None:
            self._remove(handshake)
            self._on_complete(handshake.client_socket, handshake.session, self._memory)
        elif handshake.needs_writable is not waited_to_send:
            self._unwatch(handshake)
            self._watch(handshake)

    # ---- the end of handshakes

    def _schedule_expiry(self) -> None:
        self._expiry = None
        if self._pending:
            oldest = next(iter(self._pending.values()))
            self._expiry = self._loop.call_at(oldest.deadline_s, self._expire)

    def _expire(self) -> None:
        """Close the handshakes whose time has ended, for TURN_NS, at least one; the others follow later."""
        now_s, end_ns = self._loop.time(), self._clock.monotonic_ns() + TURN_NS
        while self._pending and self._clock.monotonic_ns() < end_ns:
            handshake, origin = next(iter(self._pending.items()))
            if origin.deadline_s > now_s:
                break
            if handshake.state is not State.REFUSED:
                self._report(handshake, f"not complete after {TIMEOUT_S:g} s")
            self._close(handshake)
        self._schedule_expiry()

    def _close_one(self) -> None:
        """Close the oldest socket of the address that has the most."""
        crowded, count = self._per_address.most_common(1)[0]
        oldest = next(handshake for handshake, origin in self._pending.items() if origin.address == crowded)
        self._log("Listener %s: closing the oldest of %d incomplete TLS handshakes of %s", count, crowded)
        if oldest.state is not State.REFUSED:
            self._authentications.on_failure(is_reauthentication=False)
        self._close(oldest)

    def _report(self, handshake: TlsHandshake, reason: str) -> None:
        self._authentications.on_failure(is_reauthentication=False)
        self._log("Listener %s: the TLS handshake of %s failed: %s", self._pending[handshake].address, reason)

    def _close(self, handshake: TlsHandshake) -> None:
        self._remove(handshake)
        handshake.client_socket.close()

    def _remove(self, handshake: TlsHandshake) -> None:
        self._unwatch(handshake)
        address = self._pending.pop(handshake).address
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def _log(self, message: str, *arguments: object) -> None:
        self._log_limit.log(logger, logging.INFO, message, self._listener, *arguments)
