"""A group of many members: the time and the broker's CPU of rebalances, the rate and the latency of commits.

Each member has a connection of its own with one request in flight, and one partition. A rebalance begins when
one more member joins. All members send a heartbeat at once then, so that the interval of heartbeats is no
part of the result; members without news send the next one after a pause that bounds the load of the
coordinator. A rebalance ends when every member has its partitions and no member has to revoke one.

The rate is that of members which always have a commit in flight. The latency is measured at a fixed rate,
from the scheduled time of each commit.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from statistics import median
from typing import Any, Final, Protocol
from uuid import uuid4

import uvloop

from benchmarks.loads.group_members import (
    ClassicMember,
    ConsumerHeartbeats,
    HeartbeatMember,
    StreamsHeartbeats,
)
from benchmarks.loads.options import main, percentile
from benchmarks.processes import tree_cpu_seconds
from tidelog.clients.config.environment import SystemEnvironment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.clients.transport.connecting import ConnectionSettings, open_connection
from tidelog.clients.transport.connection import BrokerConnection
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

WITHIN_S: Final = 120.0
PAUSE_S_MIN: Final = 0.02
PAUSE_S_PER_MEMBER: Final = 0.0002
"""At most 5,000 heartbeats per second of members without news."""
COMMITS_PER_S: Final = 1_000
"""The fixed rate at which the latency of commits is measured."""
RETRY_S: Final = 0.05
CONNECTING_MAX: Final = 50

SETTINGS: Final = ConnectionSettings(
    client_id="groups", max_response_bytes=100_000_000, request_timeout_ms=60_000, setup_timeout_ms=60_000
)


class Member(Protocol):
    """A member of a group, with the protocol of its kind."""

    @property
    def epoch(self) -> int: ...

    @property
    def partitions(self) -> Sequence[int]: ...

    async def join(self) -> None: ...

    async def advance(self) -> bool: ...

    async def commit(self) -> None: ...

    async def leave(self) -> None: ...


class Group:
    """The members of one group."""

    def __init__(
        self,
        address: BrokerAddress,
        topic: str,
        partitions: int,
        *,
        protocol: str,
        connection: BrokerConnection | None = None,
    ) -> None:
        """All members use `connection`; if it is None, each opens its own.

        `protocol` is classic, consumer or streams.
        """
        self._shared_connection = connection
        self.id = f"group-{uuid4().hex[:12]}"
        self._address = address
        self._topic = topic
        self._partitions = partitions
        self._protocol = protocol
        self._connections: list[BrokerConnection] = []
        self.members: list[Member] = []
        self._states: dict[Member, tuple[int, int]] = {}
        """Epoch and number of partitions of each member."""
        self._epochs: Counter[int] = Counter()
        self._owned = 0

    async def create_members(self, count: int) -> list[Member]:
        """Return new members with connections, which have not joined yet."""
        created: list[Member] = []
        for start in range(0, count, CONNECTING_MAX):
            opened = await self._open_connections(min(CONNECTING_MAX, count - start))
            created += map(self._create_member, opened)
        return created

    def _create_member(self, connection: BrokerConnection) -> Member:
        match self._protocol:
            case "classic":
                return ClassicMember(connection, self.id, self._topic, self._partitions)
            case "consumer":
                consumer = ConsumerHeartbeats(connection, self.id, self._topic)
                return HeartbeatMember(connection, self.id, self._topic, consumer)
            case "streams":
                streams = StreamsHeartbeats(connection, self.id, self._topic)
                return HeartbeatMember(connection, self.id, self._topic, streams)
        raise ValueError(f"protocol={self._protocol!r}: must be classic, consumer or streams")

    async def find_coordinator(self) -> None:
        """Wait until the coordinator of the group is available."""
        connection = await self._connect()
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=(self.id,))
        while True:
            [found] = (
                await connection.request(request, FindCoordinatorResponse, highest_version=4)
            ).coordinators
            if not found.error_code:
                break
            if found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                raise ValueError(f"no coordinator: {ErrorCode(found.error_code).name}")
            await asyncio.sleep(RETRY_S)
        connection.close()

    async def add(self, members: Sequence[Member]) -> None:
        """Let `members` join; return when all members of the group have their partitions."""
        self.members += members
        await self._settle(members)

    async def remove(self, member: Member) -> None:
        """Let a member leave; return when the others have its partitions."""
        self.members.remove(member)
        self._subtract(member)
        await member.leave()
        await self._settle(())

    async def commit_for(self, seconds: float) -> int:
        """Let each member commit its offsets repeatedly; return the number of commits."""
        deadline = time.perf_counter() + seconds

        async def repeat(member: Member) -> int:
            count = 0
            while time.perf_counter() < deadline:
                await member.commit()
                count += 1
            return count

        return sum(await asyncio.gather(*map(repeat, self.members)))

    async def commit_at(self, per_second: float, seconds: float) -> list[float]:
        """Let the members commit alternately at a fixed rate; return the milliseconds of each commit, sorted.

        A commit that is sent late counts from its scheduled time.
        """
        taken: list[float] = []
        started = time.perf_counter()

        async def commit(member: Member, scheduled: float) -> None:
            await member.commit()
            taken.append((time.perf_counter() - scheduled) * 1e3)

        async with asyncio.TaskGroup() as commits:
            for number in range(int(per_second * seconds)):
                scheduled = started + number / per_second
                await asyncio.sleep(max(0.0, scheduled - time.perf_counter()))
                commits.create_task(commit(self.members[number % len(self.members)], scheduled))
        return sorted(taken)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    async def _open_connections(self, count: int) -> Sequence[BrokerConnection]:
        if self._shared_connection is not None:
            return [self._shared_connection] * count
        opened = await asyncio.gather(*(self._connect() for _ in range(count)))
        self._connections += opened
        return opened

    async def _connect(self) -> BrokerConnection:
        return await open_connection(SystemEnvironment(), SETTINGS, self._address)

    async def _settle(self, new: Sequence[Member]) -> None:
        pause_s = max(PAUSE_S_MIN, PAUSE_S_PER_MEMBER * len(self.members))

        async def take_part(member: Member) -> None:
            if member in new:
                await member.join()
            self._update_sums(member)
            while not self._is_settled():
                has_news = await member.advance()
                self._update_sums(member)
                if not has_news:
                    await asyncio.sleep(pause_s)

        async with asyncio.timeout(WITHIN_S):
            await asyncio.gather(*map(take_part, self.members))

    def _is_settled(self) -> bool:
        """Return whether all members are in the same epoch, and each partition has one owner."""
        members = len(self.members)
        return self._owned == self._partitions and self._epochs[self.members[0].epoch] == members

    def _update_sums(self, member: Member) -> None:
        """Update the sums over all members."""
        self._subtract(member)
        self._states[member] = state = (member.epoch, len(member.partitions))
        self._epochs[state[0]] += 1
        self._owned += state[1]

    def _subtract(self, member: Member) -> None:
        if (state := self._states.pop(member, None)) is not None:
            self._epochs[state[0]] -= 1
            self._owned -= state[1]


def groups(
    host: str, port: int, topic: str, members: int, protocol: str, seconds: float, pids: Sequence[int]
) -> dict[str, Any]:
    """Form a group; measure rebalances of one more member, the rate of commits, and their latency.

    Each takes about `seconds`.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    group = Group(BrokerAddress(-1, host, port), topic, members, protocol=protocol)
    return uvloop.run(_measure(group, members, seconds, pids))


async def _measure(group: Group, members: int, seconds: float, pids: Sequence[int]) -> dict[str, Any]:
    await group.find_coordinator()
    # One partition for each member, also when the last one has joined.
    *first, last = await group.create_members(members)
    started = time.perf_counter()
    await group.add(first)
    formed_s = time.perf_counter() - started
    rebalances: list[tuple[float, float]] = []
    deadline = time.perf_counter() + seconds
    while not rebalances or time.perf_counter() < deadline:
        rebalances.append(await cost(lambda: group.add([last]), pids))
        if time.perf_counter() < deadline:
            await group.remove(last)
    commits = 0

    async def commit() -> None:
        nonlocal commits
        commits = await group.commit_for(seconds)

    commit_s, commit_cpu_s = await cost(commit, pids)
    taken_ms = await group.commit_at(COMMITS_PER_S, seconds)
    group.close()
    return {
        "formed_ms": formed_s * 1e3,
        "rebalance_ms": median(elapsed for elapsed, _ in rebalances) * 1e3,
        "rebalance_cpu_ms": sum(cpu for _, cpu in rebalances) / len(rebalances) * 1e3,
        "commits_per_s": commits / commit_s,
        "cpu_us_per_commit": commit_cpu_s / commits * 1e6,
        "commit_p50_ms": percentile(taken_ms, 0.5),
        "commit_p99_ms": percentile(taken_ms, 0.99),
    }


async def cost(action: Callable[[], Awaitable[None]], pids: Sequence[int]) -> tuple[float, float]:
    """Return the elapsed time and the CPU time of `pids` for an action, in seconds."""
    started, cpu_before = time.perf_counter(), sum(map(tree_cpu_seconds, pids))
    await action()
    return time.perf_counter() - started, sum(map(tree_cpu_seconds, pids)) - cpu_before


if __name__ == "__main__":
    main(groups)
