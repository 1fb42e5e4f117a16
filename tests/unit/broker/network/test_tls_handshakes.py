"""Many handshakes at the same time share the event loop with everything else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.loops.both_loops import on_both_loops
from tests.support.network.loopback_server import Client, RunningServer, running_server
from tests.support.security.tls_listener import tls_server
from tests.support.waiting import eventually
from tidelog.broker.network import tls_handshakes
from tidelog.broker.network.socket_watcher import CALLBACKS_MAX

CLIENTS = 60


class WorkClock(ManualClock):
    """Each step of the code takes 0.5 ms: half of TURN_NS."""

    def monotonic_ns(self) -> int:
        self.advance_ns(500_000)
        return super().monotonic_ns()


async def largest_decrease(served: RunningServer) -> int:
    """Wait until no socket is left; return the largest number of sockets that were closed in one turn."""
    listener, largest = served.server.listeners["PLAINTEXT"], 0

    async def turn() -> bool:
        nonlocal largest
        before = listener.socket_count
        await asyncio.sleep(0)
        largest = max(largest, before - listener.socket_count)
        return before == 0

    while not await turn():
        pass
    return largest


async def connected(served: RunningServer) -> list[Client]:
    clients = [await served.connect() for _ in range(CLIENTS)]
    await eventually(lambda: served.server.listeners["PLAINTEXT"].socket_count == CLIENTS)
    return clients


@pytest.mark.parametrize(
    "end", [Client.reset, lambda client: client.writer.write(b"garbage, not TLS")], ids=["reset", "garbage"]
)
@on_both_loops
async def test_handshakes_that_fail_at_once_are_closed_in_several_turns_of_the_loop(
    end: Callable[[Client], object],
) -> None:
    async with running_server(tls=tls_server(), clock=WorkClock()) as served:
        clients = await connected(served)
        for client in clients:
            end(client)
        assert 0 < await largest_decrease(served) <= CALLBACKS_MAX


@on_both_loops
async def test_handshakes_whose_time_ends_at_once_are_closed_in_several_turns_of_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls_handshakes, "TIMEOUT_S", 0.5)
    async with running_server(tls=tls_server(), clock=WorkClock()) as served:
        await connected(served)
        assert 0 < await largest_decrease(served) <= CALLBACKS_MAX
