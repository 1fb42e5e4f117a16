"""Consumer groups (KIP-848) with librdkafka, and their migration with classic members of other libraries."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.testing.embedded import EmbeddedCluster

PARTITIONS = 6
RECORDS = 60
CONFIG = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "5000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a broker whose members send heartbeats often."""
    with EmbeddedCluster(config=CONFIG) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def topic(servers: str) -> str:
    """Return a topic with records in each of its partitions."""
    name = f"t{uuid4().hex[:8]}"
    create(servers, name)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(RECORDS):
        producer.produce(name, str(number), partition=number % PARTITIONS)
    assert producer.flush(10) == 0
    return name


def create(servers: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        future.result(TIMEOUT_S)


class Member:
    """A member of librdkafka with the consumer protocol."""

    def __init__(self, servers: str, group: str, *topics: str, **options: str) -> None:
        config = {
            "bootstrap.servers": servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            **options,
        }
        self.consumer = Consumer(config)
        self.consumer.subscribe(list(topics))
        self.received: list[tuple[int, int]] = []

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is not None:
            assert message.error() is None, message.error()
            self.received.append((message.partition(), message.offset()))

    @property
    def indexes(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())


@contextmanager
def members(*all_members: Member) -> Iterator[None]:
    """Close the members at the end."""
    try:
        yield
    finally:
        for member in all_members:
            member.consumer.close()


def poll_until(condition: Callable[[], bool], *polled: Member) -> None:
    def is_true() -> bool:
        for member in polled:
            member.poll()
        return condition()

    wait_until(is_true)


def group_type(servers: str, group: str) -> ConsumerGroupType:
    admin = AdminClient({"bootstrap.servers": servers})
    listed = admin.list_consumer_groups().result(TIMEOUT_S)
    listed_type: ConsumerGroupType = next(each.type for each in listed.valid if each.group_id == group)
    return listed_type


def test_members_share_the_partitions_and_take_over_those_of_a_member_that_leaves(
    servers: str, topic: str
) -> None:
    first = Member(servers, "shared", topic)
    second = Member(servers, "shared", topic, **{"group.remote.assignor": "range"})
    with members(first):
        with members(second):
            poll_until(lambda: len(first.indexes) == len(second.indexes) == 3, first, second)
            assert sorted(first.indexes + second.indexes) == list(range(PARTITIONS))
            poll_until(lambda: len(set(first.received + second.received)) == RECORDS, first, second)
        poll_until(lambda: len(first.indexes) == PARTITIONS, first)
        first.consumer.commit(asynchronous=False)
        admin = AdminClient({"bootstrap.servers": servers})
        description = admin.describe_consumer_groups(["shared"])["shared"].result(TIMEOUT_S)
        assert description.type is ConsumerGroupType.CONSUMER
        assert len(description.members[0].assignment.topic_partitions) == PARTITIONS
    assert group_type(servers, "shared") is ConsumerGroupType.CONSUMER


def test_a_member_with_an_expression_gets_topics_that_are_created_later(servers: str, topic: str) -> None:
    member = Member(servers, "matching", f"^{topic}.*")
    with members(member):
        poll_until(lambda: len(member.indexes) == PARTITIONS, member)
        create(servers, f"{topic}-2")
        poll_until(lambda: len(member.consumer.assignment()) == 2 * PARTITIONS, member)


def test_a_static_member_that_restarts_keeps_its_partitions(servers: str, topic: str) -> None:
    static = Member(servers, "static", topic, **{"group.instance.id": "i"})
    other = Member(servers, "static", topic)
    with members(other):
        poll_until(lambda: len(static.indexes) == len(other.indexes) == 3, static, other)
        before, kept = static.indexes, other.indexes
        static.consumer.close()
        again = Member(servers, "static", topic, **{"group.instance.id": "i"})
        with members(again):
            poll_until(lambda: again.indexes == before, again, other)
        assert other.indexes == kept


class AiokafkaMember:
    """A classic member of aiokafka in a thread of its own."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self._options = {
            "bootstrap_servers": servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "heartbeat_interval_ms": 300,
        }
        self._topic = topic
        self._stop = threading.Event()
        self.indexes: list[int] = []
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))
        self._thread.start()

    async def _run(self) -> None:
        consumer = AIOKafkaConsumer(self._topic, **self._options)
        await consumer.start()
        while not self._stop.is_set():
            await consumer.getmany(timeout_ms=50)
            self.indexes = sorted(each.partition for each in consumer.assignment())
        await consumer.stop()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


def test_a_group_migrates_from_the_classic_protocol_and_back(servers: str, topic: str) -> None:
    group = "migrating"
    python = KafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=group,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=300,
    )
    aio = AiokafkaMember(servers, group, topic)
    received: list[tuple[int, int]] = []

    def python_indexes() -> list[int]:
        for records in python.poll(50).values():
            received.extend((record.partition, record.offset) for record in records)
        return sorted(each.partition for each in python.assignment())

    try:
        poll_until(lambda: len(python_indexes()) == len(aio.indexes) == 3)
        assert group_type(servers, group) is ConsumerGroupType.CLASSIC
        new = Member(servers, group, topic)
        with members(new):
            poll_until(lambda: len(python_indexes()) == len(aio.indexes) == len(new.indexes) == 2, new)
            assert sorted(python_indexes() + aio.indexes + new.indexes) == list(range(PARTITIONS))
            assert group_type(servers, group) is ConsumerGroupType.CONSUMER
        poll_until(lambda: len(python_indexes()) == len(aio.indexes) == 3)
        assert group_type(servers, group) is ConsumerGroupType.CLASSIC
        assert len(received) == len(set(received)), "no record was received twice by this member"
    finally:
        python.close()
        aio.close()
