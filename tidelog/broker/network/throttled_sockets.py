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


class ThrottledSockets:
    """Opens or closes each socket after its throttle time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, open_socket: Callable[[socket.socket], None]) -> None:
        self._loop = loop
        self._open_socket = open_socket
        self._timers: dict[socket.socket, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._timers)

    def open_later(self, accepted: socket.socket, delay_ms: int) -> None:
        """Open the connection of a socket after `delay_ms`."""
        self._timers[accepted] = self._loop.call_later(delay_ms / 1000, self._open, accepted)

    def close_later(self, accepted: socket.socket, delay_ms: int) -> None:
        """Close a socket after `delay_ms`, so that its client does not reconnect before."""
        if len(self._timers) >= REFUSED_MAX:
            accepted.close()
            return
        self._timers[accepted] = self._loop.call_later(delay_ms / 1000, self._close, accepted)

    def close(self) -> None:
        """Close all sockets."""
        for accepted, timer in self._timers.items():
            timer.cancel()
            accepted.close()
        self._timers.clear()

    def _open(self, accepted: socket.socket) -> None:
        del self._timers[accepted]
        self._open_socket(accepted)

    def _close(self, accepted: socket.socket) -> None:
        del self._timers[accepted]
        accepted.close()
