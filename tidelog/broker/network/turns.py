"""Shares the time of the event loop among connections with waiting requests.

    idle    a connection without waiting requests. Its next request is handled in the callback that
            receives it.
    busy    a connection that had several requests at once and used up its turn. It goes to the end of a
            queue for its next turn, even if no request is left. Connections that pipeline requests
            therefore do not delay others.

In each turn of the loop the queue is served for SLICE_NS. Then the loop polls the sockets. When idle
connections have used CALLBACKS_NS in their callbacks, further ones wait in a second queue, which is served
first. Connections that have had no response yet, and connections that have ended, then wait with the busy
ones. Thousands of connections that begin or end at once therefore do not delay the others. A connection from
which much was received is not read before its turn. At least one busy connection is served in every turn of
the loop.

The more connections wait, the shorter are their turns: all of them are served within about ROUND_NS, unless
single requests take longer. While few are busy, their turns are long, because it is cheaper to handle a large
request at once, while it is in the processor's cache.

The responses of turns that follow each other are collected, and sent one directly after the other. A response
wakes up its client, which takes the kernel as long as a fifth of a small request. A client that gets several
responses at once is woken up once. The response of a turn for which the loop has waited is sent at once.

I/O: none but the clock; `call_soon` is the loop's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from tidelog.base.clock import Clock

TURN_NS_MAX: Final = 1_000_000
TURN_NS_MIN: Final = 50_000
ROUND_NS: Final = 10_000_000
SLICE_NS: Final = 1_000_000
CALLBACKS_NS: Final = 1_000_000
LONG_TURNS_MAX: Final = ROUND_NS // TURN_NS_MAX
"""While fewer connections wait, each turn may take TURN_NS_MAX."""
CLOSE_NS: Final = 40_000
"""The time that the loop and the kernel take to close a connection, after the callback that closes it."""

PAUSE_NS: Final = 10_000
"""The loop takes less from the end of a turn to the start of the next one, unless it waits for input."""
COLLECTED_NS: Final = 500_000
"""A turn that begins at least so long after the first turn whose responses are collected is the last one: at
its end, all are sent. They are sent earlier by `_run`, and by a read after CALLBACKS_NS."""

RESUMED_READ_NS: Final = 200_000
"""The time of a read of 256 KiB to new memory, which follows the turn of a connection that was not read."""


class ScheduledConnection(Protocol):
    """A connection that takes turns."""

    def next_turn(self) -> None:
        """Handle requests for at most `turn_ns`."""
        ...


class Turns:
    """The connections that wait for a turn; each is in at most one of the queues, and once.

    `spent_ns` is the time that connections have used since the queues were served, including that of reads.
    """

    __slots__ = (
        "_busy",
        "_call_soon",
        "_clock",
        "_end_ns",
        "_idle",
        "_is_scheduled",
        "_read_began_ns",
        "_turn_ended_ns",
        "_unsent",
        "_unsent_since_ns",
        "spent_ns",
    )

    def __init__(self, clock: Clock, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._clock = clock
        self._call_soon = call_soon
        self._idle: deque[ScheduledConnection] = deque()
        self._busy: deque[ScheduledConnection] = deque()
        self._is_scheduled = False
        self._end_ns = 0
        """The time at which the current call of `_run` ends."""
        self._read_began_ns = 0
        """The start time of the current or last read; there is one at a time."""
        self.spent_ns = 0
        self._turn_ended_ns = 0
        self._unsent: deque[Callable[[], None]] = deque()
        """The functions that send the responses which are collected."""
        self._unsent_since_ns = 0

    def turn_ns(self) -> int:
        """Return how long the turn of a connection may take now."""
        waiting = len(self._busy) + len(self._idle)
        if waiting < LONG_TURNS_MAX:
            return TURN_NS_MAX  # Nearly always.
        return max(TURN_NS_MIN, min(TURN_NS_MAX, ROUND_NS // (1 + waiting)))

    def enqueue(self, connection: ScheduledConnection, *, is_busy: bool) -> None:
        """Call `next_turn` of the connection later, after the connections that already wait."""
        (self._busy if is_busy else self._idle).append(connection)
        self._schedule()

    def on_read_began(self) -> None:
        """Measure the read of one connection, which begins now."""
        self._read_began_ns = self._clock.monotonic_ns()

    def on_read_ended(self) -> None:
        """Count the time since the read began."""
        self.spent_ns += self._clock.monotonic_ns() - self._read_began_ns
        if self._unsent and self.spent_ns > CALLBACKS_NS:
            # The requests that are read from now on wait for `_run`, which follows the reads of all sockets.
            self._send()

    def follows_without_pause(self, began_ns: int) -> bool:
        """Return whether a turn that began at `began_ns` follows another one without a pause."""
        return began_ns - self._turn_ended_ns < PAUSE_NS

    def send_later(self, send: Callable[[], None], began_ns: int) -> None:
        """Call `send` for the responses of a turn that began at `began_ns`, together with those of others."""
        unsent = self._unsent
        if not unsent:
            self._unsent_since_ns = began_ns
            self._schedule()
        unsent.append(send)
        if began_ns - self._unsent_since_ns >= COLLECTED_NS:
            self._send()

    def on_turn_ended(self, began_ns: int) -> None:
        """Count the time of a turn that began at `began_ns`."""
        now_ns = self._turn_ended_ns = self._clock.monotonic_ns()
        self.spent_ns += now_ns - began_ns

    def on_read_resumed(self) -> None:
        """Count the time of the read that the connection's turn makes possible."""
        self._end_ns -= RESUMED_READ_NS

    def on_close(self) -> None:
        """Count the time that closing a connection takes outside of its callbacks."""
        self.spent_ns += CLOSE_NS
        self._end_ns -= CLOSE_NS

    def _run(self) -> None:
        """Serve the queues as they are now; connections that are added meanwhile wait for the next call."""
        self._end_ns = self._clock.monotonic_ns() + SLICE_NS
        try:
            self._send()
            self._serve(self._idle)
            self._serve(self._busy)
            self._send()
        finally:
            # In `finally`: if one connection fails, the loop logs the error, and the others are served.
            self.spent_ns = 0
            self._is_scheduled = False
            if self._idle or self._busy or self._unsent:
                self._schedule()

    def _schedule(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            self._call_soon(self._run)

    def _send(self) -> None:
        """Send the responses that have been collected; a connection whose socket fails raises no error."""
        unsent = self._unsent
        while unsent:
            unsent.popleft()()

    def _serve(self, queue: deque[ScheduledConnection]) -> None:
        for _ in range(len(queue)):
            queue.popleft().next_turn()
            if self._clock.monotonic_ns() >= self._end_ns:
                return
