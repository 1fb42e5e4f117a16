"""The share consumer of librdkafka (KIP-932): implicit and explicit acknowledgement, alone and with ours."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog import ShareConsumer as OwnShareConsumer
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, ResourceType
from tidelog.protocol.errors import KafkaError
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

PARTITIONS = 3
RECORDS = 300
CONFIG = {
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.assignment.interval.ms": "0",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a broker whose members send heartbeats often."""
    with EmbeddedCluster(config=CONFIG) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    """Return a topic with records in each of its partitions."""
    name = f"jobs-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        producer.produce(name, str(number), partition=number % PARTITIONS)
    assert producer.flush(10) == 0
    return name


@pytest.fixture
def group(servers: str) -> str:
    """Return a group that starts at the first record."""
    name = f"workers-{uuid4().hex[:8]}"

    async def configure() -> None:
        async with Admin(servers) as admin:
            resource = ConfigResource(ResourceType.GROUP, name)
            change = ConfigChange(name="share.auto.offset.reset", value="earliest")
            assert (await admin.incremental_alter_configs({resource: [change]}))[resource] is None

    asyncio.run(configure())
    return name


@contextmanager
def members(servers: str, group: str, topic: str, count: int, mode: str) -> Iterator[list[ShareConsumer]]:
    """Run members of librdkafka, and close them at the end."""
    consumers = [
        ShareConsumer({"bootstrap.servers": servers, "group.id": group, "share.acknowledgement.mode": mode})
        for _ in range(count)
    ]
    try:
        for consumer in consumers:
            consumer.subscribe([topic])
        yield consumers
    finally:
        for consumer in consumers:
            consumer.close()


def numbers(consumer: ShareConsumer) -> list[int]:
    """Return the records of one poll."""
    return [number_of(message) for message in consumer.poll(0.1)]


def number_of(message: Message) -> int:
    assert message.error() is None, message.error()
    return int(message.value() or b"")


def lags(servers: str, group: str) -> list[int]:
    """Return the number of records of each partition whose delivery is not complete."""

    async def describe() -> list[int]:
        async with Admin(servers) as admin:
            offsets = (await admin.list_share_group_offsets([group]))[group]
            assert not isinstance(offsets, KafkaError), offsets
            described = [offset for offset in offsets.values() if not isinstance(offset, KafkaError)]
            assert len(described) == PARTITIONS
            return [offset.lag for offset in described]

    return asyncio.run(describe())


def test_members_get_each_record_once_and_accept_it_with_the_next_poll(
    servers: str, topic: str, group: str
) -> None:
    with members(servers, group, topic, 2, "implicit") as (first, second):
        received: list[list[int]] = [[], []]

        def has_all() -> bool:
            received[0] += numbers(first)
            received[1] += numbers(second)
            return len(received[0]) + len(received[1]) >= RECORDS

        wait_until(has_all)
        assert sorted(received[0] + received[1]) == list(range(RECORDS))
        results = {**first.commit_sync(), **second.commit_sync()}
        assert set(results.values()) <= {None}
    wait_until(lambda: lags(servers, group) == [0] * PARTITIONS)
    with members(servers, group, topic, 1, "implicit") as (third,):
        assert [numbers(third) for _ in range(10)] == [[]] * 10


def test_released_records_are_delivered_again_and_rejected_ones_are_not(
    servers: str, topic: str, group: str
) -> None:
    deliveries: Counter[int] = Counter()

    def decide(message: Message) -> AcknowledgeType:
        number = number_of(message)
        deliveries[number] += 1
        assert message.delivery_count() == deliveries[number]
        if number % 3 == 0 and deliveries[number] == 1:
            return AcknowledgeType.RELEASE
        return AcknowledgeType.REJECT if number % 5 == 0 else AcknowledgeType.ACCEPT

    with members(servers, group, topic, 1, "explicit") as (consumer,):
        expected = Counter({number: 2 if number % 3 == 0 else 1 for number in range(RECORDS)})

        def acknowledge_all() -> bool:
            for message in consumer.poll(0.1):
                consumer.acknowledge(message, decide(message))
            results = consumer.commit_sync()
            assert set(results.values()) <= {None}, results
            return deliveries == expected

        wait_until(acknowledge_all)
        assert lags(servers, group) == [0] * PARTITIONS


def test_the_records_of_a_member_that_closes_without_a_decision_go_to_another_member(
    servers: str, topic: str, group: str
) -> None:
    with members(servers, group, topic, 1, "explicit") as (consumer,):
        undecided: list[int] = []

        def has_some() -> bool:
            undecided.extend(numbers(consumer))
            return bool(undecided)

        wait_until(has_some)
    with members(servers, group, topic, 1, "implicit") as (other,):
        received: list[int] = []

        def has_all() -> bool:
            received.extend(numbers(other))
            return len(received) >= RECORDS

        wait_until(has_all)
        assert sorted(received) == list(range(RECORDS))


async def poll_own(servers: str, group: str, topic: str, poll_other: Callable[[], list[int]]) -> list[int]:
    """Return the records of our consumer, until it and the other one have all."""
    own: list[int] = []
    other: list[int] = []
    async with OwnShareConsumer(servers, group_id=group, max_poll_records=20) as consumer:
        consumer.subscribe([topic])
        async with asyncio.timeout(TIMEOUT_S):
            while len(own) + len(other) < RECORDS:
                for records in (await consumer.poll(100)).values():
                    own += [int(record.value or b"") for record in records]
                other += await asyncio.to_thread(poll_other)
    assert sorted(own + other) == list(range(RECORDS))
    return own


def test_members_of_librdkafka_and_of_our_client_share_a_group(servers: str, topic: str, group: str) -> None:
    with members(servers, group, topic, 1, "implicit") as (consumer,):
        asyncio.run(poll_own(servers, group, topic, lambda: numbers(consumer)))
