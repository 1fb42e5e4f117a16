"""A workload: clients with an own task in the cluster, and the check of what must have become of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from tidelog.clients.admin.admin import Admin
from tidelog.protocol.errors import KafkaError
from tidelog.testing.simulation.process import Process
from tidelog.testing.simulation.simulation import Simulation

RETRY_S = 0.5


class Client(Protocol):
    """A client that works until it is stopped."""

    is_stopped: bool
    task: asyncio.Task[None]


class Workload(Protocol):
    """Clients that work while faults happen. Their steps end when the faults have ended."""

    @property
    def clients(self) -> list[Client]:
        """The clients, which are started by `start`."""
        ...

    def start(self) -> None:
        """Start the clients, before the first fault."""
        ...

    def check(self) -> None:
        """Check the results, after the clients and all faults have ended. Errors: AssertionError."""
        ...


class AdminClient:
    """Repeats a step with an admin client until `is_stopped`, and begins again after an error."""

    def __init__(
        self, simulation: Simulation, process: Process, perform: Callable[[Admin], Awaitable[None]]
    ) -> None:
        self._servers = simulation.cluster.bootstrap_servers
        self._process = process
        self._perform = perform
        self.is_stopped = False
        self.task = process.start(self._run())

    async def _run(self) -> None:
        while not self.is_stopped:
            try:
                async with Admin(
                    self._servers,
                    environment=self._process.environment,
                    default_api_timeout_ms=10_000,
                    request_timeout_ms=5_000,
                ) as admin:
                    while not self.is_stopped:
                        await self._perform(admin)
            except KafkaError:
                await asyncio.sleep(RETRY_S)


async def until_done(attempt: Callable[[], Awaitable[None]]) -> None:
    """Repeat `attempt` until it raises no KafkaError."""
    while True:
        try:
            await attempt()
        except KafkaError:
            await asyncio.sleep(RETRY_S)
        else:
            return
