"""Accepted sockets of one listener that wait, because too many connections are created.

Bounds: REFUSED_MAX sockets wait to be closed; above that, a socket is closed at once. At most one waits to be
opened, because the listener accepts no connection meanwhile.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Final

REFUSED_MAX: Final = 1_000
"""The sockets that may wait to be closed."""


class ThrottledSockets:
    """Opens or closes each socket after its throttle time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, open_socket: Callable[[socket.socket], None]) -> None:
        self._loop = loop
        self._open_socket = open_socket
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def open_later(self, client_socket: socket.socket, delay_ms: int) -> None:
        """Open the connection of a socket after `delay_ms`."""
        self._timers[client_socket] = self._loop.call_later(delay_ms / 1000, self._open, client_socket)

    def close_later(self, client_socket: socket.socket, delay_ms: int) -> None:
        """Close a socket after `delay_ms`, so that its client does not reconnect before."""
        if len(self._timers) >= REFUSED_MAX:
            client_socket.close()
            return
        self._timers[client_socket] = self._loop.call_later(delay_ms / 1000, self._close, client_socket)

    def close(self) -> None:
        """Close all sockets."""
        for client_socket, timer in self._timers.items():
            timer.cancel()
            client_socket.close()
        self._timers.clear()

    def _open(self, client_socket: socket.socket) -> None:
        del self._timers[client_socket]
        self._open_socket(client_socket)

    def _close(self, client_socket: socket.socket) -> None:
        del self._timers[client_socket]
        client_socket.close()
