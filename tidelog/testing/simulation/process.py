"""Simulated machines and their processes.

process ends (kill -9)   its connections are reset; the disk keeps all writes, also unsynced ones
power fails              peers are not notified; the disk loses a random part of what was not synced
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from tidelog.clients.config.environment import SystemEnvironment
from tidelog.testing.simulation.event_loop import SimulatedLoop
from tidelog.testing.simulation.executors import SimulatedThreads
from tidelog.testing.simulation.network import Network
from tidelog.testing.simulation.scheduler import MS
from tidelog.testing.simulation.sockets import SimulatedSockets
from tidelog.testing.simulation.states import MachineState, ProcessState

FIRST_WALL_MS: Final = 1_700_000_000_000
"""The wall-clock time at the start of every simulation."""
ResultT = TypeVar("ResultT")


class Process:
    """One process, from its start to its end: its loop, sockets, clock and random numbers."""

    def __init__(self, network: Network, state: ProcessState) -> None:
        scheduler = state.machine.scheduler
        self.state = state
        self.rng = random.Random(scheduler.rng.getrandbits(64))
        self.sockets = SimulatedSockets(state, network)
        # The methods of asyncio that it lacks raise an error.
        self.loop = SimulatedLoop(state, self.sockets)  # type: ignore[abstract]
        self.clock = SimulatedClock(self.loop, state.machine)
        self.environment = SystemEnvironment(self.rng, self.clock)
        self.threads = SimulatedThreads(state)

    @property
    def name(self) -> str:
        """The name of the machine with the number of the process."""
        return self.state.name

    def start(self, coroutine: Coroutine[Any, Any, ResultT]) -> asyncio.Task[ResultT]:
        """Start a task in the process and return it."""
        return self.loop.create_task(coroutine)

    def pause(self) -> None:
        """Stop running, as with SIGSTOP; its connections stay open."""
        self.state.pause()

    def resume(self) -> None:
        """Continue running."""
        self.state.resume()
        self.loop.wake()

    def end(self) -> None:
        """Never run again."""
        self.state.end()
        self.loop.end()


class SimulatedClock:
    """The clocks of a process: virtual time, and a wall clock that may be wrong."""

    def __init__(self, loop: SimulatedLoop, machine: MachineState) -> None:
        self._read_ns = loop.read_ns
        self._machine = machine

    def wall_ms(self) -> int:
        """Return the milliseconds since 1970 (UTC); may jump."""
        return FIRST_WALL_MS + self._read_ns() // MS + self._machine.wall_ahead_ms

    def monotonic_ms(self) -> int:
        """Return the milliseconds of virtual time."""
        return self._read_ns() // MS

    def monotonic_ns(self) -> int:
        """Return the nanoseconds of virtual time."""
        return self._read_ns()


class Machine:
    """One machine with at most one process."""

    def __init__(self, network: Network, name: str, address: str) -> None:
        self.state = MachineState(network.scheduler, name, address)
        self.process: Process | None = None
        self.ended: list[Process] = []
        """The processes that have ended."""
        self._network = network
        self._starts = 0
        network.machines[address] = self.state

    def start_process(self) -> Process:
        """Start a new process, after the power is on again."""
        assert self.process is None, f"{self.state.name} has a process"
        self.state.turn_on()
        self._starts += 1
        state = ProcessState(self.state, f"{self.state.name}.{self._starts}", self.fail_power)
        self.process = Process(self._network, state)
        return self.process

    def kill_process(self) -> None:
        """End the process at once."""
        process = self._end_process()
        if process is not None:
            process.sockets.close_all()

    def fail_power(self) -> None:
        """End the process and lose a random part of the unsynced changes of the disk."""
        self.state.turn_off()
        if self._end_process() is not None:
            self._network.drop_listeners(self.state.address)
        self.state.lose_unsynced()

    def release(self) -> None:
        """Forget all processes: the simulation has ended."""
        self.process = None
        self.ended.clear()

    def _end_process(self) -> Process | None:
        process, self.process = self.process, None
        if process is not None:
            process.end()
            self.ended.append(process)
        return process
