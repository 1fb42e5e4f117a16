"""The sockets of one simulated process: descriptors, listening sockets and their events.

Implements the port `tidelog.broker.network.sockets.Sockets`. A simulated socket has the type of a real one,
but no descriptor of the machine.
"""

from __future__ import annotations

import asyncio
import errno
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from tidelog.testing.simulation.network import Network
from tidelog.testing.simulation.states import ProcessState
from tidelog.testing.simulation.stream import Address, Endpoint
from tidelog.testing.simulation.transport import SimulatedTransport

_FIRST_DESCRIPTOR: Final = 100
_ACCEPT_QUEUE: Final = 128


class SimulatedSocket(socket.socket):
    """A socket of a connection."""

    def __init__(self, sockets: SimulatedSockets, endpoint: Endpoint | None = None) -> None:
        self.sockets = sockets
        self.endpoint_or_none = endpoint
        self._number = sockets.add(self)

    @property
    def endpoint(self) -> Endpoint:
        """The side of the connection."""
        assert self.endpoint_or_none is not None, "the socket has no connection"
        return self.endpoint_or_none

    def events(self) -> int:
        """Return the current events of epoll."""
        endpoint, events = self.endpoint, 0
        if endpoint.is_reset:
            events |= select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP
        if endpoint.received or endpoint.has_ended:
            events |= select.EPOLLIN
        if endpoint.has_ended:
            events |= select.EPOLLRDHUP
        if endpoint.room:
            events |= select.EPOLLOUT
        return events

    def fileno(self) -> int:
        """Return the simulated descriptor; -1 after `close`."""
        return self._number

    def setblocking(self, flag: bool, /) -> None:
        """Do nothing: the socket never blocks."""

    def setsockopt(self, *arguments: Any) -> None:
        """Ignore the option."""

    def getsockopt(self, *option: int) -> Any:
        """Return the error number of the connection; SO_ERROR is the only option."""
        assert option == (socket.SOL_SOCKET, socket.SO_ERROR), f"the option {option} is not simulated"
        return errno.ECONNRESET if self.endpoint.is_reset else 0

    def getpeername(self) -> Address:
        """Return the address of the peer."""
        return self.endpoint.remote

    def getsockname(self) -> Address:
        """Return the address of this side."""
        return self.endpoint.local

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send as many bytes as there is room for. Errors: BlockingIOError, ConnectionResetError."""
        endpoint = self.endpoint
        if not endpoint.is_open:
            raise ConnectionResetError(104, "Connection reset by peer")
        count = min(len(data), endpoint.room)
        if not count:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        endpoint.send(data[:count])
        return count

    def close(self) -> None:
        """Release the descriptor, and reset the connection if it is open."""
        if self._number >= 0:
            self.sockets.remove(self._number)
            self._number = -1
            if self.endpoint_or_none is not None:
                self.endpoint_or_none.reset()


class ListeningSocket(SimulatedSocket):
    """A bound socket with the connections that were not accepted yet."""

    def __init__(self, sockets: SimulatedSockets, address: Address) -> None:
        super().__init__(sockets)
        self.process = sockets.process
        self._address = address
        self._queue: deque[Endpoint] = deque()

    def getsockname(self) -> Address:
        """Return the bound address."""
        return self._address

    def listen(self, backlog: int = 0, /) -> None:
        """Accept connections from now on."""
        self.sockets.network.listeners[self._address] = self

    def enqueue(self, endpoint: Endpoint) -> None:
        """Add a connection that has arrived."""
        self._queue.append(endpoint)
        self.sockets.on_readable(self.fileno())

    def is_readable(self) -> bool:
        """Return whether a connection can be accepted."""
        return bool(self._queue)

    def accept(self) -> tuple[socket.socket, Address]:
        """Return the next connection. Errors: BlockingIOError."""
        if not self._queue:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        endpoint = self._queue.popleft()
        return SimulatedSocket(self.sockets, endpoint), endpoint.remote

    def close(self) -> None:
        """Stop listening; connections that were not accepted are reset."""
        super().close()
        self.sockets.network.listeners.pop(self._address, None)
        while self._queue:
            self._queue.popleft().reset()


class SimulatedPoll:
    """Reports the events of sockets, as an epoll instance does."""

    def __init__(self, sockets: SimulatedSockets) -> None:
        self._sockets = sockets
        self._interest: dict[int, int] = {}
        self._number = sockets.add(self)

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._number < 0

    def fileno(self) -> int:
        """Return the simulated descriptor."""
        return self._number

    def register(self, descriptor: int, events: int, /) -> None:
        """Report these events of a descriptor."""
        self._interest[descriptor] = events
        self._sockets.on_readable(self._number)

    modify = register

    def watches(self, descriptor: int) -> bool:
        """Return whether events of a descriptor are reported."""
        return descriptor in self._interest

    def unregister(self, descriptor: int, /) -> None:
        """Report no further events of a descriptor."""
        del self._interest[descriptor]

    def is_readable(self) -> bool:
        """Return whether there are events."""
        return bool(self.poll(0, 1))

    def poll(self, timeout: float, maxevents: int, /) -> list[tuple[int, int]]:
        """Return up to `maxevents` pairs of a descriptor and its events."""
        ready: list[tuple[int, int]] = []
        for descriptor, wanted in self._interest.items():
            events = self._sockets.events(descriptor) & (wanted | select.EPOLLERR | select.EPOLLHUP)
            if events:
                ready.append((descriptor, events))
                if len(ready) == maxevents:
                    break
        return ready

    def close(self) -> None:
        """Release the descriptor."""
        self._sockets.remove(self._number)
        self._number = -1


class SimulatedSockets:
    """The descriptors of a process."""

    def __init__(self, process: ProcessState, network: Network) -> None:
        self.process = process
        self.network = network
        self.on_readable: Callable[[int], None] = _ignore
        """Called with a descriptor that may be readable now."""
        self._open: dict[int, SimulatedSocket | SimulatedPoll] = {}
        self._polls: dict[int, SimulatedPoll] = {}
        self._of_endpoints: dict[Endpoint, SimulatedSocket] = {}
        self._next = _FIRST_DESCRIPTOR
        self._free: list[int] = []

    def call_when_readable(self, callback: Callable[[int], None]) -> None:
        """Call with a descriptor that may be readable now."""
        self.on_readable = callback

    # ---- the port

    def bind(self, owner: str, host: str, port: int, receive_buffer_bytes: int) -> socket.socket:
        """Return a bound socket. Errors: OSError with the name of the `owner`."""
        address = (self.process.machine.address, port or self.network.free_port())
        if address in self.network.listeners:
            raise OSError(98, f"{owner} cannot bind to {host}:{port}: Address already in use")
        return ListeningSocket(self, address)

    def poll(self) -> SimulatedPoll:
        """Return a new poll instance."""
        return SimulatedPoll(self)

    def accept_queue_size(self, configured: int) -> int:
        """Return how many connections may wait to be accepted."""
        return configured if configured > 0 else _ACCEPT_QUEUE

    # ---- descriptors

    def add(self, owner: SimulatedSocket | SimulatedPoll) -> int:
        """Return a descriptor."""
        number = self._free.pop() if self._free else self._next
        self._next = max(self._next, number + 1)
        self._open[number] = owner
        if isinstance(owner, SimulatedPoll):
            self._polls[number] = owner
        elif owner.endpoint_or_none is not None:
            self._of_endpoints[owner.endpoint_or_none] = owner
        return number

    def remove(self, number: int) -> None:
        """Close a descriptor."""
        owner = self._open.pop(number, None)
        if isinstance(owner, SimulatedSocket) and owner.endpoint_or_none is not None:
            self._of_endpoints.pop(owner.endpoint_or_none, None)
        self._polls.pop(number, None)
        self._free.append(number)

    def events(self, number: int) -> int:
        """Return the current events of a socket."""
        owner = self._open.get(number)
        return owner.events() if isinstance(owner, SimulatedSocket) else 0

    def is_readable(self, number: int) -> bool:
        """Return whether a listening socket or a poll instance is readable."""
        owner = self._open.get(number)
        return isinstance(owner, ListeningSocket | SimulatedPoll) and owner.is_readable()

    def close_all(self) -> None:
        """Reset all connections: the process has ended."""
        for owner in list(self._open.values()):
            owner.close()

    # ---- transports

    async def attach(
        self, loop: asyncio.AbstractEventLoop, endpoint: Endpoint, protocol_factory: Any
    ) -> tuple[SimulatedTransport, Any]:
        """Return a transport of a connection and its protocol."""
        own_socket = self._of_endpoints.get(endpoint) or SimulatedSocket(self, endpoint)
        protocol = protocol_factory()
        transport = SimulatedTransport(loop, endpoint, protocol, {"socket": own_socket}, own_socket.close)

        def on_change() -> None:
            transport.on_change()
            descriptor = own_socket.fileno()
            for number, poll in self._polls.items():
                if poll.watches(descriptor):
                    self.on_readable(number)

        endpoint.call_on_change(on_change)
        connected = loop.create_future()
        loop.call_soon(_complete, connected)
        await connected
        return transport, protocol


def _ignore(_: int) -> None:
    pass


def _complete(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.set_result(None)
