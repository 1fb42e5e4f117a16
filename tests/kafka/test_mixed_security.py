"""Nodes of Apache Kafka and of Tidelog in one secured cluster: replication, forwarding, equal decisions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from tests.kafka.grants import grant, own_options
from tests.kafka.kafka_node import Node
from tests.kafka.secured_cluster import KAFKAS, OURS, SecuredCluster
from tests.kafka.secured_work import (
    commit_and_abort,
    create_transactional_topic,
    replicate_in_both_directions,
    tier_with_metadata_at_both_kinds,
)
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tidelog.clients.admin.admin import Admin
from tidelog.clients.admin.types import ConfigResource, NewTopic, ResourceType
from tidelog.clients.consumer.consumer import Consumer as OwnConsumer
from tidelog.protocol.access_control import AclOperation, AclResourceType, PatternType, PermissionType
from tidelog.protocol.errors import KafkaError as OwnError
from tidelog.protocol.ids import TopicPartition as Place

PREFIXED, DENY = PatternType.PREFIXED, PermissionType.DENY
TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID


def code(call: Callable[[], object]) -> str:
    """Return the name of the error that a call of librdkafka raises, or an empty text."""
    try:
        call()
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


def creation(secured: SecuredCluster, node: Node, user: str, topic: str) -> str:
    """Return the error of a topic's creation that one broker forwards to the controller, or an empty text."""

    async def create() -> str:
        async with Admin(node.address, **own_options(secured, user)) as admin:
            new = NewTopic(name=topic, num_partitions=1, replication_factor=1)
            return await outcome(admin.create_topics([new]))

    return asyncio.run(create())


def write(options: dict[str, str], servers: str, topic: str, partition: int) -> None:
    """Write one record; raise the error of the broker."""
    producer = Producer(
        {**options, "bootstrap.servers": servers, "message.timeout.ms": 20_000, "log_level": 0}
    )
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"value", partition=partition, on_delivery=lambda error, _: errors.append(error))
    producer.flush(WITHIN_S)
    if errors[0] is not None:
        raise KafkaException(errors[0])


async def read(secured: SecuredCluster, node: Node, user: str, place: Place) -> None:
    """Read one record with a client that knows one broker; raise the broker's error."""
    options = own_options(secured, user)
    async with (
        asyncio.timeout(WITHIN_S),
        OwnConsumer(node.address, auto_offset_reset="earliest", **options) as consumer,
    ):
        consumer.assign([place])
        while not await consumer.poll(1_000):
            pass


async def outcome(call: Awaitable[Any]) -> str:
    """Return the name of the error that a call of our admin client raises or returns, or an empty text."""
    try:
        results = await call
    except OwnError as error:
        return error.code.name
    errors = results.values() if isinstance(results, dict) else ()
    return next((each.code.name for each in errors if isinstance(each, OwnError)), "")


async def administrative(secured: SecuredCluster, node: Node, user: str, topic: str, new: str) -> list[str]:
    """Return the results of a user's requests by an admin client that knows one broker."""
    place = Place(topic, (OURS, KAFKAS).index(node.number))
    broker = ConfigResource(ResourceType.BROKER, str(node.number))
    described = ConfigResource(ResourceType.TOPIC, topic)
    async with Admin(node.address, **own_options(secured, user)) as admin:
        return [
            await outcome(read(secured, node, user, place)),
            await outcome(admin.list_group_offsets(topic)),
            await outcome(admin.list_offsets({place: -1})),
            await outcome(admin.describe_configs([described])),
            await outcome(admin.describe_configs([broker])),
            await outcome(admin.describe_acls()),
            await outcome(admin.create_topics([NewTopic(name=new, num_partitions=1, replication_factor=1)])),
            await outcome(admin.delete_topics([new])),
            str(list(await admin.list_topics())),
        ]


def decisions(secured: SecuredCluster, node: Node, user: str, topic: str, new: str) -> list[str]:
    """Return the results of a user's requests to one broker and, forwarded, to the active controller."""
    options, partition = secured.librdkafka(user), (OURS, KAFKAS).index(node.number)
    return [
        code(lambda: write(options, node.address, topic, partition)),
        *asyncio.run(administrative(secured, node, user, topic, new)),
    ]


def test_records_are_replicated_in_both_directions(secured: SecuredCluster) -> None:
    replicate_in_both_directions(secured)


@pytest.mark.parametrize("engine", list(Engine))
def test_the_same_client_gets_the_same_decisions_from_nodes_of_both_kinds(
    secured: SecuredCluster, engine: Engine
) -> None:
    topic = f"decided-by-{engine.name.lower()}"
    secured.elect_controller_of(engine)
    secured.clients.create_topic(topic, [[OURS, KAFKAS], [KAFKAS, OURS]])

    def decisions_of_brokers(user: str, new: str) -> list[list[str]]:
        texts_by_broker = [
            decisions(secured, node, user, topic, f"{topic}-{new}-{node.number}") for node in secured.brokers
        ]
        return [
            [text.replace(f"-{new}-{node.number}", "") for text in one]
            for one, node in zip(texts_by_broker, secured.brokers, strict=True)
        ]

    ours, kafkas = decisions_of_brokers("alice", "new")
    assert ours == kafkas
    assert ours[:4] == [
        "TOPIC_AUTHORIZATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "TOPIC_AUTHORIZATION_FAILED",
    ]
    assert topic not in ours[-1]
    grant(secured, TOPIC, topic, AclOperation.READ, AclOperation.WRITE)
    grant(secured, GROUP, topic, AclOperation.READ)
    grant(secured, TOPIC, f"{topic}-new", AclOperation.CREATE, pattern=PREFIXED)
    ours, kafkas = decisions_of_brokers("alice", "new")
    assert ours == kafkas
    assert ours[:4] == ["", "", "", ""]
    assert ours[7:9] == ["", "TOPIC_AUTHORIZATION_FAILED"]
    grant(secured, TOPIC, topic, AclOperation.WRITE, permission=DENY, host="127.0.0.1")
    ours, kafkas = decisions_of_brokers("alice", "new")
    assert ours == kafkas
    assert ours[:2] == ["TOPIC_AUTHORIZATION_FAILED", ""]
    ours, kafkas = decisions_of_brokers("admin", "other")
    # Without the list of topics: a deletion may still be in progress.
    assert ours[:9] == kafkas[:9] == [""] * 9


@pytest.mark.parametrize("engine", list(Engine))
def test_a_forwarded_request_is_decided_by_the_address_of_the_client(
    secured: SecuredCluster, engine: Engine
) -> None:
    secured.elect_controller_of(engine)
    prefix = f"forwarded-{engine.name.lower()}"
    grant(secured, TOPIC, prefix, AclOperation.CREATE, pattern=PREFIXED, host="10.0.0.1")
    for node in secured.brokers:
        assert creation(secured, node, "alice", f"{prefix}-{node.number}") == "TOPIC_AUTHORIZATION_FAILED"
    grant(secured, TOPIC, prefix, AclOperation.CREATE, pattern=PREFIXED, host="127.0.0.1")
    for node in secured.brokers:
        assert creation(secured, node, "alice", f"{prefix}-{node.number}") == ""


@pytest.mark.parametrize("coordinator", [OURS, KAFKAS])
def test_transactions_need_permission_and_commit_over_brokers_of_both_kinds(
    secured: SecuredCluster, coordinator: int
) -> None:
    topic, name = f"in-transactions-{coordinator}", f"transactional-{coordinator}"
    create_transactional_topic(secured, topic, coordinator)
    options = {
        **secured.librdkafka("bob"),
        "bootstrap.servers": secured.cluster.bootstrap_servers,
        "transactional.id": name,
        "log_level": 0,
    }
    refused = code(lambda: Producer(options).init_transactions(WITHIN_S))
    assert refused == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    grant(secured, TRANSACTIONAL_ID, name, AclOperation.WRITE, user="bob")
    grant(secured, TOPIC, topic, AclOperation.WRITE, user="bob")
    commit_and_abort(secured, Producer(options), topic)


def test_metadata_of_remote_segments_is_written_to_and_read_from_a_broker_of_apache_kafka(
    secured: SecuredCluster,
) -> None:
    tier_with_metadata_at_both_kinds(secured)
