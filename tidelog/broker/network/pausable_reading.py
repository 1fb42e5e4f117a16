"""Pauses reading from a connection's socket. The event loop does not report a peer's close meanwhile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from tidelog.broker.network.socket_watcher import PEER_CLOSED, READABLE, SocketWatcher


class PausableReading:
    """Pauses and resumes the reading of a transport.

    A transport that is paused for the connection (`is_paused`) is watched for the peer's close. One that
    awaits input is watched for bytes, and is then read again.
    """

    __slots__ = ("_event", "_on_peer_closed", "_socket", "_transport", "_watcher", "is_paused")

    def __init__(
        self, client_socket: socket.socket, watcher: SocketWatcher, on_peer_closed: Callable[[int], None]
    ) -> None:
        self._socket = client_socket
        self._watcher = watcher
        self._on_peer_closed = on_peer_closed
        self._transport: asyncio.Transport | None = None
        """The transport that awaits input; None if it is read, or paused for the connection."""
        self._event = 0
        """The watched event; 0 if none is watched."""
        self.is_paused = False

    def pause(self, transport: asyncio.Transport, *, watch: bool) -> None:
        """Pause reading; with `watch`, call `on_peer_closed` with the events when the peer has closed."""
        if not self.is_paused:
            self.is_paused = True
            if self._transport is None:
                transport.pause_reading()
            else:
                self.unwatch()
        if watch:
            self._watch(PEER_CLOSED, self._on_peer_closed)

    def resume(self, transport: asyncio.Transport) -> None:
        """Resume reading, which detects a close without watching."""
        if self.is_paused:
            self.is_paused = False
            self.unwatch()
            transport.resume_reading()

    def await_input(self, transport: asyncio.Transport) -> None:
        """Read no more until the watcher reports bytes or a close. It reports few connections at a time."""
        if not self.is_paused and self._transport is None:
            self._transport = transport
            transport.pause_reading()
            self._watch(READABLE, self._on_input)

    @property
    def awaits_input(self) -> bool:
        """Whether the watcher will report the next bytes."""
        return self._transport is not None

    def unwatch(self) -> None:
        """Stop watching for an event."""
        self._transport = None
        if self._event:
            self._watcher.unwatch(self._socket.fileno(), self._event)
            self._event = 0

    def _watch(self, event: int, callback: Callable[[int], None]) -> None:
        if not self._event:
            self._event = event
            self._watcher.watch(self._socket.fileno(), event, callback)

    def _on_input(self, events: int) -> None:
        transport = self._transport
        self.unwatch()
        if transport is not None:
            transport.resume_reading()
