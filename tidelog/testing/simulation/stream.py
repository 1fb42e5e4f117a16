"""One simulated TCP connection: its two sides, and the bytes between them.

    sender: unsent -> in flight -> receiver: received -> read by the process

At most WINDOW_BYTES are sent and not yet read. A side ends with a FIN behind its bytes, or with a reset,
after which bytes that were not read are lost.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from tidelog.testing.simulation.scheduler import Scheduler
from tidelog.testing.simulation.states import ProcessState

WINDOW_BYTES: Final = 256 * 1024
_SPLIT_SHARE: Final = 0.05
_RESET_NS: Final = (10_000, 2_000_000)
Address = tuple[str, int]


class Link:
    """One direction between two machines."""

    def __init__(self) -> None:
        self.is_cut = False
        self.extra_delay_ns = 0
        self.held: list[tuple[Flow, Callable[[], None]]] = []
        """The packets that wait for the end of a cut."""


class Flow:
    """The order of the packets of one direction of a connection."""

    __slots__ = ("last_ns", "link")

    def __init__(self, link: Link) -> None:
        self.link = link
        self.last_ns = 0


class Wire(Protocol):
    """What the sides of connections use of the network."""

    scheduler: Scheduler

    def link(self, source: str, target: str) -> Link:
        """Return the link between two addresses."""
        ...

    def transmit(self, flow: Flow, deliver: Callable[[], None]) -> None:
        """Call `deliver` when the packet arrives."""
        ...

    def register(self, endpoint: Endpoint) -> int:
        """Return the number of a new side of a connection."""
        ...

    def forget(self, number: int) -> None:
        """Remove a side that has ended."""
        ...


class Endpoint:
    """One side of a connection; `on_change` is called when it may be read or written, or has ended."""

    def __init__(self, wire: Wire, process: ProcessState, local: Address, remote: Address) -> None:
        self.process = process
        self.local = local
        self.remote = remote
        self.flow = Flow(wire.link(local[0], remote[0]))
        self.peer: Endpoint = self
        self.unsent = bytearray()
        self.received: deque[bytes] = deque()
        self.has_ended = False
        """The peer has sent all its bytes."""
        self.is_reset = False
        self.is_closed = False
        """The process has closed this side."""
        self.on_change: Callable[[], None] = _do_nothing
        self._wire = wire
        self._number = wire.register(self)
        self._trace_code = wire.scheduler.trace.code(f"bytes {process.name} {remote}")
        self._on_the_way = 0
        self._unread = 0
        """The bytes that were sent to the peer and that its process has not read."""
        self._sends_end = False
        self._arriving_bytes_left: int | None = None
        """After a break, how many of the bytes on the way to this side still arrive."""

    @property
    def is_open(self) -> bool:
        """Whether the side was neither closed nor reset."""
        return not self.is_closed and not self.is_reset

    @property
    def room(self) -> int:
        """How many bytes can be sent now."""
        return 0 if self.unsent else max(0, WINDOW_BYTES - self._unread)

    def call_on_change(self, callback: Callable[[], None]) -> None:
        """Call when the side may be read or written, or has ended."""
        self.on_change = callback

    # ---- sending

    def send(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, as soon as the window allows it."""
        if not self._sends_end:
            self.unsent += data
            self._push()

    def finish(self) -> None:
        """End this direction behind its bytes."""
        if not self._sends_end:
            self._sends_end = True
            self._push()

    def _push(self) -> None:
        rng = self._wire.scheduler.rng
        unsent = self.unsent
        while unsent and self._unread < WINDOW_BYTES and not self.is_reset:
            count = min(len(unsent), WINDOW_BYTES - self._unread)
            if count > 1 and rng.random() < _SPLIT_SHARE:
                count = 1 + rng.randrange(count)
            piece = bytes(unsent[:count])
            del unsent[:count]
            self._unread += count
            self._on_the_way += count
            self._transmit(partial(self.peer._on_data, piece))
        if self._sends_end and not unsent and not self.is_reset:
            self._transmit(self.peer._on_end)

    def _transmit(self, deliver: Callable[[], None]) -> None:
        self._wire.transmit(self.flow, deliver)

    # ---- arriving

    def _on_data(self, piece: bytes) -> None:
        self.peer._on_the_way -= len(piece)
        if self._arriving_bytes_left is not None:
            piece = piece[: self._arriving_bytes_left]
            self._arriving_bytes_left -= len(piece)
            if not piece:
                return
        if self._is_rejected():
            return
        self._wire.scheduler.trace.add(self._trace_code, zlib.crc32(piece))
        self.received.append(piece)
        self.on_change()

    def _on_end(self) -> None:
        if self._arriving_bytes_left is None and not self._is_rejected():
            self.has_ended = True
            self.on_change()

    def _is_rejected(self) -> bool:
        """Return whether this side exists no more; the peer then gets a reset if the machine has power."""
        if self.is_reset:
            return True
        if self.is_closed or not self.process.is_running:
            machine = self.process.machine
            if machine.has_power:
                self._transmit(self.peer.on_reset)
            else:
                machine.call_at_power_on(lambda: self._transmit(self.peer.on_reset))
            return True
        return False

    def read(self, count: int) -> bytes:
        """Return at most `count` received bytes."""
        piece = self.received.popleft()
        if len(piece) > count:
            self.received.appendleft(piece[count:])
            piece = piece[:count]
        peer = self.peer
        if peer.unsent:
            self._transmit(lambda: peer._on_read(len(piece)))
        else:
            peer._unread -= len(piece)
        return piece

    def _on_read(self, count: int) -> None:
        self._unread -= count
        if self.process.is_running and not self.is_reset:
            self._push()
            self.on_change()

    # ---- ends

    def reset(self) -> None:
        """Close this side at once; the peer is notified behind the bytes that are in flight."""
        if self.is_open:
            self.unsent.clear()
            self.close()
            self._transmit(self.peer.on_reset)

    def close(self) -> None:
        """Remove this side: its process has closed it."""
        self.is_closed = True
        self.on_change = _do_nothing
        self._wire.forget(self._number)

    def on_reset(self) -> None:
        """Record that the connection exists no more."""
        if not self.is_reset and not self.is_closed and self.process.is_running:
            self.is_reset = True
            self.unsent.clear()
            self.received.clear()
            self.on_change()
        self._wire.forget(self._number)

    def break_connection(self) -> None:
        """Lose the bytes on the way from some position on, in both directions; both sides get a reset."""
        scheduler = self._wire.scheduler
        for side in (self, self.peer):
            side._arriving_bytes_left = scheduler.rng.randrange(side.peer._on_the_way + 1)
            scheduler.after(scheduler.between(*_RESET_NS), side.on_reset)


def connected_pair(
    wire: Wire, near: ProcessState, far: ProcessState, local: Address, remote: Address
) -> tuple[Endpoint, Endpoint]:
    """Return the two sides of a new connection."""
    first, second = Endpoint(wire, near, local, remote), Endpoint(wire, far, remote, local)
    first.peer, second.peer = second, first
    return first, second


def _do_nothing() -> None:
    pass
