"""Watches the sockets of transports for events that the event loop does not report.

    EPOLLIN      the first bytes of a new connection; the loop would read those of all connections in one turn
    EPOLLRDHUP   the peer has closed its side while reading is paused, so that the loop does not detect it
    EPOLLOUT     the socket accepts bytes that bypass the transport

An event loop does not allow watching the descriptor of a transport, and a duplicate would cost a descriptor
for each connection. Therefore a separate epoll instance watches the sockets, and the loop watches this
instance. The kernel adds EPOLLERR and EPOLLHUP, which are passed to every callback of the socket.

Invariant: a socket is watched only while its transport is open; `connection_lost` is called before the close.
Bounds: SLICE_NS in a turn of the loop and one further callback, CALLBACKS_MAX in all. The kernel reports the
ready sockets in rotation, and the remaining ones in the next turn of the loop.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.network.sockets import SYSTEM_SOCKETS, Sockets

READABLE: Final = select.EPOLLIN
PEER_CLOSED: Final = select.EPOLLRDHUP
WRITABLE: Final = select.EPOLLOUT
BROKEN: Final = select.EPOLLERR | select.EPOLLHUP
CALLBACKS_MAX: Final = 8
SLICE_NS: Final = 2_000_000


class SocketWatcher:
    """Calls back as long as a watched event is reported (level-triggered)."""

    __slots__ = ("_callbacks", "_clock", "_epoll", "_loop")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, sockets: Sockets = SYSTEM_SOCKETS
    ) -> None:
        self._loop = loop
        self._clock = clock
        # Created at the start, because descriptors may be used up later.
        self._epoll = sockets.poll()
        loop.add_reader(self._epoll.fileno(), self._ready)
        self._callbacks: dict[int, dict[int, Callable[[int], None]]] = {}
        """By descriptor and event."""

    def watch(self, descriptor: int, event: int, callback: Callable[[int], None]) -> None:
        """Call `callback` with the events of a socket when `event` is among them, or the socket is broken."""
        callbacks = self._callbacks.get(descriptor)
        if callbacks is None:
            self._epoll.register(descriptor, event)
            self._callbacks[descriptor] = {event: callback}
        else:
            callbacks[event] = callback
            self._epoll.modify(descriptor, sum(callbacks))

    def unwatch(self, descriptor: int, event: int) -> None:
        """Stop watching for `event`. Has no effect if it is not watched."""
        callbacks = self._callbacks.get(descriptor)
        if callbacks is None or callbacks.pop(event, None) is None:
            return
        if callbacks:
            self._epoll.modify(descriptor, sum(callbacks))
        else:
            del self._callbacks[descriptor]
            self._epoll.unregister(descriptor)

    def close(self) -> None:
        """Stop watching all sockets."""
        self._callbacks.clear()
        if not self._epoll.closed:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def _ready(self) -> None:
        end_ns = self._clock.monotonic_ns() + SLICE_NS
        for _ in range(CALLBACKS_MAX):
            if self._epoll.closed:
                return
            # One at a time: a socket that is reported but not called would wait for another rotation.
            ready = self._epoll.poll(0, 1)
            self._call(ready)
            if not ready or self._clock.monotonic_ns() >= end_ns:
                return

    def _call(self, ready: list[tuple[int, int]]) -> None:
        for descriptor, events in ready:
            for event in tuple(self._callbacks.get(descriptor, ())):
                # Looked up again, because a callback may have stopped watching any socket.
                callback = self._callbacks.get(descriptor, {}).get(event)
                if callback is not None and events & (event | BROKEN):
                    callback(events)
