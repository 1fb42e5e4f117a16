"""Events of sockets that a loop does not watch are handled alternately, in time slices."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.both_loops import on_both_loops
from tests.support.waiting import eventually
from tidelog.broker.network.socket_watcher import (
    BROKEN,
    PEER_CLOSED,
    SLICE_NS,
    WRITABLE,
    SocketWatcher,
)

CALLBACKS_IN_A_SLICE = 2


@on_both_loops
async def test_sockets_that_are_always_ready_are_called_alternately_within_the_time_of_a_turn() -> None:
    """Four large responses that were continued in one turn blocked the event loop for 10 ms."""
    clock = ManualClock()
    watcher = SocketWatcher(asyncio.get_running_loop(), clock)
    pairs = [socket.socketpair() for _ in range(64)]
    called: list[int] = []
    for number, (own, _) in enumerate(pairs):

        def callback(events: int, number: int = number) -> None:
            called.append(number)
            clock.advance_ns(SLICE_NS // CALLBACKS_IN_A_SLICE)

        watcher.watch(own.fileno(), WRITABLE, callback)
    turns = 0
    while len(called) < 10 * len(pairs):
        before = len(called)
        await asyncio.sleep(0)
        turns += 1
        assert len(called) - before <= CALLBACKS_IN_A_SLICE
    counts = Counter(called)
    assert len(counts) == len(pairs)
    assert max(counts.values()) - min(counts.values()) <= 1
    watcher.close()
    for pair in pairs:
        for each in pair:
            each.close()


@on_both_loops
async def test_read_and_write_events_of_a_socket_are_watched_separately() -> None:
    watcher = SocketWatcher(asyncio.get_running_loop(), ManualClock())
    own, other = socket.socketpair()
    events: dict[str, int] = {}
    watcher.watch(own.fileno(), PEER_CLOSED, lambda closed: events.update(closed=closed))

    def writable(closed: int) -> None:
        events["writable"] = closed
        watcher.unwatch(own.fileno(), WRITABLE)

    watcher.watch(own.fileno(), WRITABLE, writable)
    await eventually(lambda: "writable" in events)
    assert "closed" not in events
    other.shutdown(socket.SHUT_WR)
    await eventually(lambda: "closed" in events)
    assert not events["closed"] & BROKEN
    other.close()
    await eventually(lambda: bool(events["closed"] & BROKEN))
    watcher.unwatch(own.fileno(), PEER_CLOSED)
    watcher.unwatch(own.fileno(), PEER_CLOSED)
    watcher.close()
    watcher.close()
    own.close()
