"""Many groups of few members (KIP-848): the time and the broker's CPU to form them, heartbeats, commits.

The members of all groups share `CONNECTIONS` connections, because not every machine allows a process one for
each of 10,000 members. `GROUPS_AT_ONCE` groups form at the same time. Then all members send heartbeats that
change nothing, one more member joins some groups, and all members commit their offsets.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from statistics import median
from typing import Any, Final

import uvloop

from benchmarks.loads.groups import SETTINGS, Group, cost
from benchmarks.loads.options import main
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import open_connection

CONNECTIONS: Final = 100
GROUPS_AT_ONCE: Final = 50
CHANGED_GROUPS: Final = 20


def many_groups(
    host: str, port: int, topic: str, groups: int, members: int, seconds: float, pids: Sequence[int]
) -> dict[str, Any]:
    """Form `groups` groups of `members`, and measure them; commits take about `seconds`."""
    return uvloop.run(_measure(BrokerAddress(-1, host, port), topic, groups, members, seconds, pids))


async def _measure(
    address: BrokerAddress, topic: str, count: int, members: int, seconds: float, pids: Sequence[int]
) -> dict[str, Any]:
    environment = SystemEnvironment()
    connections = [await open_connection(environment, SETTINGS, address) for _ in range(CONNECTIONS)]
    groups = [
        Group(address, topic, members, protocol="consumer", connection=connections[number % CONNECTIONS])
        for number in range(count)
    ]
    await groups[0].find_coordinator()

    async def form(group: Group) -> None:
        # One partition for each member, also when the last one has joined.
        *first, last = await group.create_members(members)
        await group.add(first)
        waiting[group] = last

    waiting: dict[Group, Any] = {}
    formed_s, formed_cpu_s = await cost(lambda: _all_at_once(map(form, groups)), pids)
    heartbeat_s, heartbeat_cpu_s = await cost(
        lambda: _all_at_once(_heartbeat_all(group) for group in groups), pids
    )
    heartbeats = count * (members - 1)
    joins = []
    for group in groups[:: max(1, count // CHANGED_GROUPS)]:
        joins.append(await cost(partial(group.add, [waiting[group]]), pids))
    commits = 0

    async def commit() -> None:
        nonlocal commits
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            await _all_at_once(_commit_all(group) for group in groups)
            commits += sum(len(group.members) for group in groups)

    commit_s, commit_cpu_s = await cost(commit, pids)
    for connection in connections:
        connection.close()
    return {
        "formed_s": formed_s,
        "formed_cpu_ms_per_group": formed_cpu_s / count * 1e3,
        "heartbeats_per_s": heartbeats / heartbeat_s,
        "cpu_us_per_heartbeat": heartbeat_cpu_s / heartbeats * 1e6,
        "rebalance_ms": median(elapsed for elapsed, _ in joins) * 1e3,
        "commits_per_s": commits / commit_s,
        "cpu_us_per_commit": commit_cpu_s / commits * 1e6,
    }


async def _heartbeat_all(group: Group) -> None:
    for member in group.members:
        await member.advance()


async def _commit_all(group: Group) -> None:
    for member in group.members:
        await member.commit()


async def _all_at_once(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run all works, `GROUPS_AT_ONCE` at a time."""
    slots = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def run(work: Coroutine[Any, Any, None]) -> None:
        async with slots:
            await work

    await asyncio.gather(*map(run, works))


if __name__ == "__main__":
    main(many_groups)
