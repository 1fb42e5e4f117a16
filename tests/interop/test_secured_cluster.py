"""Three nodes with SASL on every listener and an authorizer, used by librdkafka as an ordinary user."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.security.jaas import PLAIN_LOGIN_MODULE
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

JAAS = (
    f'{PLAIN_LOGIN_MODULE} required username="node" password="node-secret" '
    'user_node="node-secret" user_alice="alice-secret";'
)
CONFIG = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": JAAS,
    "listener.name.controller.plain.sasl.jaas.config": JAAS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with EmbeddedCluster(nodes=3, config=CONFIG) as cluster:
        wait_until(lambda: len(ThreeNodes(cluster).brokers()) == 3)
        yield cluster.bootstrap_servers


def options(servers: str, user: str) -> dict[str, str | int | float | bool]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


@pytest.fixture
def nodes(servers: str) -> AdminClient:
    """Return the administrator: the user of the nodes, which is a super user."""
    return AdminClient(options(servers, "node"))


@pytest.fixture
def alice(servers: str) -> AdminClient:
    return AdminClient(options(servers, "alice"))


@pytest.fixture
def name() -> str:
    return f"name-{uuid4().hex[:8]}"


def allow(admin: AdminClient, kind: ResourceType, name: str, *operations: AclOperation) -> None:
    literal, permission = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
    entries = [AclBinding(kind, name, literal, "User:alice", "*", each, permission) for each in operations]
    for stored in admin.create_acls(entries).values():
        stored.result(TIMEOUT_S)


def error_of_creation(admin: AdminClient, name: str) -> int | None:
    creation = admin.create_topics([NewTopic(name, num_partitions=3, replication_factor=3)])[name]
    try:
        creation.result(TIMEOUT_S)
    except KafkaException as error:
        code: int = error.args[0].code()
        return code
    return None


def error_of_produce(servers: str, topic: str) -> int | None:
    producer = Producer({**options(servers, "alice"), "message.timeout.ms": 15_000, "acks": "all"})
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    (error,) = errors
    return None if error is None else error.code()


def test_the_controller_checks_the_client_of_a_forwarded_request(
    nodes: AdminClient, alice: AdminClient, name: str
) -> None:
    assert error_of_creation(alice, name) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(nodes, ResourceType.TOPIC, name, AclOperation.CREATE)
    assert error_of_creation(alice, name) is None


def test_records_are_replicated_and_read_by_a_user_with_permission(
    servers: str, nodes: AdminClient, name: str
) -> None:
    assert error_of_creation(nodes, name) is None
    assert error_of_produce(servers, name) == KafkaError.TOPIC_AUTHORIZATION_FAILED
    allow(nodes, ResourceType.TOPIC, name, AclOperation.WRITE, AclOperation.READ)
    allow(nodes, ResourceType.GROUP, name, AclOperation.READ)
    wait_until(lambda: error_of_produce(servers, name) is None)
    consumer = Consumer({**options(servers, "alice"), "group.id": name, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([name])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert (message.error(), message.value()) == (None, b"value")
        assert consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()


def test_only_the_administrator_can_create_entries(alice: AdminClient, name: str) -> None:
    with pytest.raises(KafkaException) as caught:
        allow(alice, ResourceType.TOPIC, name, AclOperation.ALL)
    assert caught.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
