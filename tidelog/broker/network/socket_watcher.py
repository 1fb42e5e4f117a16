"""Watches sockets that belong to transports, for events that the event loop does not report.

    EPOLLRDHUP   the peer has closed its side while reading is paused, so the loop does not see the end
    EPOLLOUT     there is room again for bytes that are sent past the transport

An event loop does not allow watching the descriptor of a transport, and a duplicate would cost a descriptor
for each connection. Therefore a separate epoll instance watches the sockets, and the loop watches it. The
kernel adds EPOLLERR and EPOLLHUP, which are passed to every callback of the socket.

Invariant: a socket is watched only while its transport is open; `connection_lost` comes before the close.
Bounds: SLICE_NS in a turn of the loop, and at most EVENTS_MAX callbacks more. The kernel reports the sockets
in turn, and those that are left in the next turn of the loop.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Final

from tidelog.base.clock import Clock

PEER_CLOSED: Final = select.EPOLLRDHUP
WRITABLE: Final = select.EPOLLOUT
BROKEN: Final = select.EPOLLERR | select.EPOLLHUP
EVENTS_MAX: Final = 4
SLICE_NS: Final = 2_000_000


class SocketWatcher:
    """Calls back when a watched event has come, again and again until it is no longer watched."""

    __slots__ = ("_callbacks", "_clock", "_epoll", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        # From the start, so that it is there when descriptors are used up.
        self._epoll = select.epoll()
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
        ends_ns = self._clock.monotonic_ns() + SLICE_NS
        while not self._epoll.closed:
            # A few at a time: those that were reported and not called would have lost their turn.
            ready = self._epoll.poll(0, EVENTS_MAX)
            self._call(ready)
            if len(ready) < EVENTS_MAX or self._clock.monotonic_ns() >= ends_ns:
                return

    def _call(self, ready: list[tuple[int, int]]) -> None:
        for descriptor, events in ready:
            for event in tuple(self._callbacks.get(descriptor, ())):
                # A callback may have ended the watching of any socket.
                callback = self._callbacks.get(descriptor, {}).get(event)
                if callback is not None and events & (event | BROKEN):
                    callback(events)
