"""Requests to the share coordinators: one for each coordinator and group, sent again while it moves."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tests.support.clocks.virtual_time import VirtualTime
from tests.support.loops.yields import loop_iterations
from tidelog.broker.coordinators.share import coordinator_persister
from tidelog.broker.coordinators.share.coordinator_persister import (
    RETRY_TIMEOUT_MS,
    STATES_AT_ONCE,
    CoordinatorPersister,
    PersisterPorts,
)
from tidelog.broker.coordinators.share.persister import SharePartitionKey, StateRead, StoredState
from tidelog.broker.coordinators.share.state_messages import READ
from tidelog.broker.scheduling.slices import Slices
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.steps import run_steps

TOPIC = UUID(int=7)


def state_reads(*partitions: tuple[str, int]) -> list[StateRead]:
    return [
        StateRead(share_partition=SharePartitionKey(group, TOPIC, index), leader_epoch=1)
        for group, index in partitions
    ]


class Cluster:
    """Brokers 1 and 2, which lead the state of even and odd partitions; `respond` defines the results."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = VirtualTime()
        self.requests: list[tuple[int, str, list[int]]] = []
        self.respond: Callable[[int, StateRead], StoredState] = self.state
        self.leaders = {0: 1, 1: 2}
        self.has_topic = True
        self.created = 0
        self.persister = CoordinatorPersister(
            PersisterPorts(
                brokers=self,
                image=self.image,
                partition_for=lambda share_partition: share_partition.partition % 2,
                create_topic=self.create_topic,
                clock=self.time,
                slices=Slices(self.time),
            )
        )

        async def sleep(seconds: float) -> None:
            self.time.pass_time(round(seconds * 1000))

        monkeypatch.setattr(coordinator_persister, "asyncio", SimpleNamespace(sleep=sleep))

    def create_topic(self) -> None:
        self.created += 1
        self.has_topic = self.created >= 2

    def image(self) -> Any:
        partitions = {index: SimpleNamespace(leader=leader) for index, leader in self.leaders.items()}
        topics = {"__share_group_state": SimpleNamespace(partitions=partitions)} if self.has_topic else {}
        brokers = {1: SimpleNamespace(fenced=False), 2: SimpleNamespace(fenced=False)}
        return SimpleNamespace(topics_by_name=topics, brokers=brokers)

    async def request(self, broker: int, message: Any, response: Any) -> Any:
        items = run_steps(READ.items(message))
        self.requests.append((broker, message.group_id, [item.share_partition.partition for item in items]))
        return run_steps(READ.create_response(items, [self.respond(broker, item) for item in items]))

    def state(self, broker: int, read: StateRead) -> StoredState:
        return StoredState(state_epoch=broker, start_offset=read.share_partition.partition)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


async def test_one_request_is_sent_to_each_coordinator_for_each_group(cluster: Cluster) -> None:
    results = await cluster.persister.read(state_reads(("g", 0), ("g", 1), ("h", 2), ("g", 4), ("g", 3)))
    assert sorted(cluster.requests) == [(1, "g", [0, 4]), (1, "h", [2]), (2, "g", [1, 3])]
    assert [(result.state_epoch, result.start_offset) for result in results] == [
        (1, 0),
        (2, 1),
        (1, 2),
        (1, 4),
        (2, 3),
    ]


async def test_only_the_states_of_a_coordinator_that_moved_are_sent_again(cluster: Cluster) -> None:
    def respond(broker: int, read: StateRead) -> StoredState:
        if broker == 2:
            cluster.leaders[1] = 1
            return StoredState(error_code=ErrorCode.NOT_COORDINATOR)
        return cluster.state(broker, read)

    cluster.respond = respond
    results = await cluster.persister.read(state_reads(("g", 0), ("g", 1)))
    assert cluster.requests == [(1, "g", [0]), (2, "g", [1]), (1, "g", [1])]
    assert [result.start_offset for result in results] == [0, 1]


async def test_the_topic_is_created_before_the_first_request(cluster: Cluster) -> None:
    cluster.has_topic = False
    [result] = await cluster.persister.read(state_reads(("g", 0)))
    assert (result.error_code, cluster.created) == (ErrorCode.NONE, 2)


async def test_an_error_that_remains_is_returned_after_the_timeout(cluster: Cluster) -> None:
    began_ms = cluster.time.monotonic_ms()
    cluster.respond = lambda broker, read: StoredState(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    [result] = await cluster.persister.read(state_reads(("g", 0)))
    assert result.error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert RETRY_TIMEOUT_MS - 1000 <= cluster.time.monotonic_ms() - began_ms <= RETRY_TIMEOUT_MS
    assert len(cluster.requests) < 25


async def test_a_request_without_a_response_is_sent_again(cluster: Cluster) -> None:
    failures = [ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT]

    def respond(broker: int, read: StateRead) -> StoredState:
        if failures:
            raise KafkaError(failures.pop())
        return cluster.state(broker, read)

    cluster.respond = respond
    [result] = await cluster.persister.read(state_reads(("g", 0)))
    assert (result.error_code, len(cluster.requests)) == (ErrorCode.NONE, 3)


async def test_an_error_of_the_state_is_not_retried(cluster: Cluster) -> None:
    cluster.respond = lambda broker, read: StoredState(error_code=ErrorCode.FENCED_LEADER_EPOCH)
    [result] = await cluster.persister.read(state_reads(("g", 0)))
    assert (result.error_code, len(cluster.requests)) == (ErrorCode.FENCED_LEADER_EPOCH, 1)


async def test_requests_with_many_states_are_sent_one_after_the_other(cluster: Cluster) -> None:
    """This node may be the coordinator of all of them, and each request takes long there."""
    at_once = most_at_once = 0
    request = cluster.request

    async def slow_request(broker: int, message: Any, response: Any) -> Any:
        nonlocal at_once, most_at_once
        count = len(run_steps(READ.items(message)))
        at_once += count
        most_at_once = max(most_at_once, at_once)
        await loop_iterations(3)
        at_once -= count
        return await request(broker, message, response)

    cluster.request = slow_request  # type: ignore[method-assign]
    groups = [f"g{number % 100}" for number in range(2_000)]
    results = await cluster.persister.read(state_reads(*((group, 2 * n) for n, group in enumerate(groups))))
    assert [result.start_offset for result in results] == [2 * n for n in range(2_000)]
    assert 0 < most_at_once <= STATES_AT_ONCE
    assert len(cluster.requests) == 100
