"""The simulated network: addresses, links with delays and cuts, and the listeners of all machines.

A link is one direction between two machines. While it is cut, its packets wait, as those of TCP do, and are
delivered after the cut has ended. Packets of one direction of a connection arrive in order.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from tidelog.testing.simulation.scheduler import MS, Scheduler
from tidelog.testing.simulation.states import MachineState, ProcessState
from tidelog.testing.simulation.stream import Endpoint, Flow, Link, connected_pair

FIRST_FREE_PORT: Final = 40_000
USUAL_DELAY_NS: Final = (50_000, 600_000)
LATE_DELAY_NS: Final = (1 * MS, 25 * MS)
_LATE_SHARE: Final = 0.01
_RETRANSMISSION_NS: Final = (1 * MS, 400 * MS)
_UNUSED_NS: Final = (1 * MS, 10_000 * MS)


class Listening(Protocol):
    """A socket that accepts connections."""

    process: ProcessState

    def enqueue(self, endpoint: Endpoint) -> None:
        """Add a connection that has arrived."""
        ...


class Network:
    """All links and listeners."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.machines: dict[str, MachineState] = {}
        """By address."""
        self.listeners: dict[tuple[str, int], Listening] = {}
        self.endpoints: dict[int, Endpoint] = {}
        """The open sides of connections, by number."""
        self._links: dict[tuple[str, str], Link] = {}
        self._next_port = FIRST_FREE_PORT
        self._next_endpoint = 0
        self._duplicates_left = 0

    # ---- names

    def address_of(self, host: str) -> str:
        """Return the address of a machine by name or address. Errors: socket.gaierror."""
        if host in self.machines:
            return host
        for address, machine in self.machines.items():
            if machine.name == host:
                return address
        raise socket.gaierror(socket.EAI_NONAME, f"there is no simulated machine {host}")

    def free_port(self) -> int:
        """Return a port that was not used before."""
        self._next_port += 1
        return self._next_port

    def register(self, endpoint: Endpoint) -> int:
        """Return the number of a new side of a connection."""
        self._next_endpoint += 1
        self.endpoints[self._next_endpoint] = endpoint
        return self._next_endpoint

    def forget(self, number: int) -> None:
        """Remove a side that has ended."""
        self.endpoints.pop(number, None)

    def drop_listeners(self, address: str) -> None:
        """Remove the listeners of a machine without power."""
        for key in [key for key in self.listeners if key[0] == address]:
            del self.listeners[key]

    # ---- faults

    @property
    def is_cut(self) -> bool:
        """Whether any link is cut."""
        return any(link.is_cut for link in self._links.values())

    def link(self, source: str, target: str) -> Link:
        """Return the link between two addresses."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link()
        return link

    def cut(self, sources: Iterable[str], targets: Iterable[str]) -> None:
        """Deliver no packet from one of `sources` to one of `targets`."""
        targets = tuple(targets)
        for source in sources:
            for target in targets:
                if source != target:
                    self.link(source, target).is_cut = True

    def heal(self) -> None:
        """End all cuts and extra delays; packets that waited are sent again."""
        for link in self._links.values():
            link.extra_delay_ns = 0
            if link.is_cut:
                link.is_cut = False
                held, link.held = link.held, []
                for flow, deliver in held:
                    self._schedule(flow, deliver, self.scheduler.between(*_RETRANSMISSION_NS))

    def reset_connection(self) -> None:
        """Break one random connection between any two of its bytes."""
        numbers = [number for number, endpoint in self.endpoints.items() if endpoint.is_open]
        if numbers:
            self.endpoints[numbers[self.scheduler.rng.randrange(len(numbers))]].break_connection()

    def duplicate_connections(self, count: int) -> None:
        """Let the next `count` connections arrive twice: the second one is never used, and is reset later."""
        self._duplicates_left = count

    # ---- packets

    def transmit(self, flow: Flow, deliver: Callable[[], None]) -> None:
        """Call `deliver` when the packet arrives."""
        link = flow.link
        if link.is_cut:
            link.held.append((flow, deliver))
            return
        rng = self.scheduler.rng
        delay = LATE_DELAY_NS if rng.random() < _LATE_SHARE else USUAL_DELAY_NS
        delay_ns = self.scheduler.between(*delay)
        if link.extra_delay_ns:
            delay_ns += rng.randrange(link.extra_delay_ns)
        self._schedule(flow, deliver, delay_ns)

    def _schedule(self, flow: Flow, deliver: Callable[[], None], delay_ns: int) -> None:
        scheduler = self.scheduler
        flow.last_ns = max(flow.last_ns + 1, scheduler.now_ns + delay_ns)
        scheduler.at(flow.last_ns, deliver)

    # ---- connections

    async def connect(self, process: ProcessState, host: str, port: int) -> Endpoint:
        """Open a connection and return its side. Errors: ConnectionRefusedError.

        Waits for ever if the other machine has no power or cannot be reached: callers have a timeout.
        """
        source = process.machine.address
        target = self.address_of(host)
        future: asyncio.Future[Endpoint] = asyncio.get_running_loop().create_future()
        flow, back = Flow(self.link(source, target)), Flow(self.link(target, source))

        def refuse() -> None:
            if not future.done():
                future.set_exception(ConnectionRefusedError(111, f"Connect call failed ({host!r}, {port})"))

        def complete(endpoint: Endpoint) -> None:
            if future.done() or not process.is_running:
                endpoint.reset()
            else:
                future.set_result(endpoint)

        def arrive() -> None:
            machine = self.machines[target]
            if not machine.has_power:
                return
            listener = self.listeners.get((target, port))
            if listener is None:
                self.transmit(back, refuse)
                return
            near, far = connected_pair(
                self, process, listener.process, (source, self.free_port()), (target, port)
            )
            listener.enqueue(far)
            self.transmit(far.flow, lambda: complete(near))
            if self._duplicates_left:
                self._duplicates_left -= 1
                second, accepted = connected_pair(
                    self, process, listener.process, (source, self.free_port()), (target, port)
                )
                listener.enqueue(accepted)
                self.scheduler.after(self.scheduler.between(*_UNUSED_NS), second.reset)

        self.transmit(flow, arrive)
        return await future
