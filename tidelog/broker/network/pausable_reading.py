"""Pauses reading from a connection's socket. The event loop does not report a peer's close meanwhile."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from tidelog.broker.network.socket_watcher import PEER_CLOSED, SocketWatcher


class PausableReading:
    """Pauses and resumes the reading of a transport, and watches a paused one for the peer's close."""

    __slots__ = ("_descriptor", "_on_peer_closed", "_socket", "_watcher", "is_paused")

    def __init__(
        self, client_socket: socket.socket, watcher: SocketWatcher, on_peer_closed: Callable[[int], None]
    ) -> None:
        self._socket = client_socket
        self._watcher = watcher
        self._on_peer_closed = on_peer_closed
        self._descriptor = -1
        """The watched descriptor; -1 if none is watched."""
        self.is_paused = False

    def pause(self, transport: asyncio.Transport, *, watch: bool) -> None:
        """Pause reading; with `watch`, call `on_peer_closed` with the events when the peer has closed."""
        if not self.is_paused:
            self.is_paused = True
            transport.pause_reading()
        if watch and self._descriptor < 0:
            self._descriptor = self._socket.fileno()
            self._watcher.watch(self._descriptor, PEER_CLOSED, self._on_peer_closed)

    def resume(self, transport: asyncio.Transport) -> None:
        """Resume reading, which detects a close without watching."""
        if self.is_paused:
            self.is_paused = False
            self.unwatch()
            transport.resume_reading()

    def unwatch(self) -> None:
        """Stop watching for the peer's close."""
        if self._descriptor >= 0:
            self._watcher.unwatch(self._descriptor, PEER_CLOSED)
            self._descriptor = -1
