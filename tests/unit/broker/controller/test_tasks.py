"""The periodic tasks of the active controller."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.clocks.manual_clock import ManualClock
from tests.support.configs import controller_settings
from tests.support.metadata.images import SeededRandomness
from tests.support.metadata.single_controller import store_with_brokers, write
from tests.support.waiting import TIMEOUT_S, eventually
from tidelog.base.clock import Clock, SystemClock
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.controller.tasks import ControllerTasks, TaskIntervals
from tidelog.broker.metadata.store import MetadataStore
from tidelog.cluster.controller.create_topics import create_topics
from tidelog.cluster.controller.heartbeats import BrokerHeartbeats
from tidelog.cluster.controller.result import ControllerResult
from tidelog.cluster.image import MetadataImage
from tidelog.protocol.errors import ErrorCode, KafkaError
from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from tidelog.protocol.metadata_records.config_record import ConfigRecord
from tidelog.protocol.metadata_records.delegation_token_record import DelegationTokenRecord
from tidelog.protocol.metadata_records.partition_change_record import PartitionChangeRecord

SETTINGS = controller_settings(node_id=1)
NEVER = TaskIntervals(
    fences_brokers=False, balance_ms=None, unclean_election_ms=None, idle_ms=None, token_check_ms=None
)


@asynccontextmanager
async def tasks(
    store: MetadataStore,
    intervals: TaskIntervals = NEVER,
    session_ms: int = 60_000,
    clock: Clock | None = None,
) -> AsyncIterator[BrokerHeartbeats]:
    clock = clock or SystemClock()
    heartbeats = BrokerHeartbeats(session_ms)
    heartbeats.activate(store.image, clock.monotonic_ms())
    running = ControllerTasks(store, SETTINGS, heartbeats, clock, intervals)
    running.start()
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield heartbeats
    finally:
        running.stop()


def intervals(**changes: Any) -> TaskIntervals:
    values = {
        "fences_brokers": False,
        "balance_ms": None,
        "unclean_election_ms": None,
        "idle_ms": None,
        "token_check_ms": None,
    }
    return TaskIntervals(**(values | changes))


async def topic_on(store: MetadataStore, *replicas: int) -> None:
    assignment = (CreatableReplicaAssignment(partition_index=0, broker_ids=replicas),)
    topic = CreatableTopic(name="tides", num_partitions=-1, replication_factor=-1, assignments=assignment)
    request = CreateTopicsRequest(topics=(topic,))
    reply = await store.submit(lambda image: create_topics(image, SETTINGS, request, SeededRandomness()))
    assert reply.topics[0].error_code == 0


def leader(store: MetadataStore) -> int:
    return store.image.topics_by_name["tides"].partitions[0].leader


async def test_a_broker_with_an_expired_session_is_fenced() -> None:
    async with store_with_brokers(1, 2) as store:
        await topic_on(store, 1, 2)
        clock = SystemClock()
        async with tasks(store, intervals(fences_brokers=True), session_ms=150) as heartbeats:

            def one_is_fenced() -> bool:
                heartbeats.record_heartbeat(store.image, 2, 102, clock.monotonic_ms())
                return store.image.brokers[1].fenced

            await eventually(one_is_fenced)
            assert not store.image.brokers[2].fenced
            assert leader(store) == 2


async def test_an_unexpected_error_does_not_end_fencing(monkeypatch: pytest.MonkeyPatch) -> None:
    next_deadline_ms = BrokerHeartbeats.next_deadline_ms
    faults = [RuntimeError("a bug")]

    def fail_once(heartbeats: BrokerHeartbeats, image: MetadataImage, now_ms: int) -> int | None:
        if faults:
            raise faults.pop()
        return next_deadline_ms(heartbeats, image, now_ms)

    monkeypatch.setattr(BrokerHeartbeats, "next_deadline_ms", fail_once)
    async with store_with_brokers(1) as store, tasks(store, intervals(fences_brokers=True), session_ms=50):
        await eventually(lambda: store.image.brokers[1].fenced)


async def test_a_failed_fencing_is_retried_after_a_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a pause it would hold the event loop, and fill the log of the operator."""
    attempts: list[float] = []
    loop = asyncio.get_running_loop()

    def refuse(*_: object) -> ControllerResult[bool]:
        attempts.append(loop.time())
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    monkeypatch.setattr("tidelog.broker.controller.tasks.fence_stale_broker", refuse)
    async with store_with_brokers(1) as store, tasks(store, intervals(fences_brokers=True), session_ms=20):
        await eventually(lambda: len(attempts) == 2)
    assert attempts[1] - attempts[0] > 0.2


async def test_a_delayed_controller_does_not_fence_brokers_with_pending_heartbeats() -> None:
    async with store_with_brokers(1, 2) as store:
        clock = ManualClock()
        async with tasks(store, intervals(fences_brokers=True), session_ms=40, clock=clock) as heartbeats:
            await asyncio.sleep(0)
            clock.now_ms += 10_000
            offset = store.image.offset
            await eventually(lambda: heartbeats.has_session(1, 101, clock.monotonic_ms()))
            assert store.image.offset == offset
            clock.now_ms += 41
            await eventually(lambda: store.image.brokers[1].fenced and store.image.brokers[2].fenced)


async def test_preferred_replicas_become_leader_again() -> None:
    async with store_with_brokers(1, 2) as store:
        await topic_on(store, 1, 2)
        topic_id = store.image.topics_by_name["tides"].id
        await write(store, [PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=2)])
        async with tasks(store):
            assert leader(store) == 2
        async with tasks(store, intervals(balance_ms=5)):
            await eventually(lambda: leader(store) == 1)


async def test_a_topic_with_unclean_election_gets_any_leader() -> None:
    async with store_with_brokers(1, 2) as store:
        await topic_on(store, 1, 2)
        topic_id = store.image.topics_by_name["tides"].id
        lost = PartitionChangeRecord(topic_id=topic_id, partition_id=0, leader=-1, isr=())
        allowed = ConfigRecord(
            resource_type=2, resource_name="tides", name="unclean.leader.election.enable", value="true"
        )
        await write(store, [lost, allowed])
        async with tasks(store, intervals(unclean_election_ms=5)):
            await eventually(lambda: leader(store) == 1)


async def test_an_idle_controller_writes_no_op_records() -> None:
    async with store_with_brokers(1) as store:
        offset = store.image.offset
        async with tasks(store, intervals(idle_ms=5)):
            await eventually(lambda: store.image.offset >= offset + 3)
        await store.finish()  # A record that was submitted before the stop may not be committed yet.
        offset = store.image.offset
        async with tasks(store):
            await asyncio.sleep(0)
        assert store.image.offset == offset


def of(**texts: str) -> TaskIntervals:
    values = {"node.id": "1"} | {key.replace("_", "."): text for key, text in texts.items()}
    return TaskIntervals.of(BrokerConfig(values))


def test_intervals_are_read_from_the_configuration() -> None:
    alone = of()
    assert (alone.fences_brokers, alone.idle_ms, alone.balance_ms) == (False, None, 300_000)
    one_of_many = of(
        controller_quorum_voters="1@localhost:9093,2@localhost:9094",
        controller_listener_names="CONTROLLER",
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
    )
    assert (one_of_many.fences_brokers, one_of_many.idle_ms) == (True, 500)
    assert of(auto_leader_rebalance_enable="false").balance_ms is None


async def test_expired_delegation_tokens_are_removed_and_others_are_not() -> None:
    clock = ManualClock()
    expired = DelegationTokenRecord(token_id="expired", max_timestamp=clock.now_ms - 1)
    valid = DelegationTokenRecord(
        token_id="valid", max_timestamp=clock.now_ms, expiration_timestamp=clock.now_ms
    )
    async with store_with_brokers(1) as store:
        await write(store, [expired, valid])
        async with tasks(store, intervals(token_check_ms=5), clock=clock):
            await eventually(lambda: set(store.image.delegation_tokens) == {"valid"})


def test_tokens_are_checked_only_if_they_are_enabled() -> None:
    key = {"delegation_token_secret_key": "secret", "delegation_token_expiry_check_interval_ms": "7"}
    assert of(**key).token_check_ms == 7
    assert of(delegation_token_secret_key="").token_check_ms is None
    assert of().token_check_ms is None
