"""Authorization with librdkafka and aiokafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import TopicAuthorizationFailedError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.waiting import TIMEOUT_S
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """Run a cluster in which clients without authentication may not use the topic and group \"closed\"."""
    with EmbeddedCluster(config=CONFIG) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        topics = [NewTopic(name, num_partitions=1, replication_factor=1) for name in ("open", "closed")]
        for created in admin.create_topics(topics).values():
            created.result(TIMEOUT_S)
        entries = [
            AclBinding(
                kind,
                "closed",
                ResourcePatternType.LITERAL,
                "User:ANONYMOUS",
                "*",
                AclOperation.ALL,
                AclPermissionType.DENY,
            )
            for kind in (ResourceType.TOPIC, ResourceType.GROUP)
        ]
        for stored in admin.create_acls(entries).values():
            stored.result(TIMEOUT_S)
        yield cluster.bootstrap_servers


@pytest.fixture
def admin(servers: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": servers})


def errors_of_produce(servers: str, topic: str) -> list[KafkaError | None]:
    producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 10_000})
    errors: list[KafkaError | None] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    return errors


def test_librdkafka_produces_only_where_it_may(servers: str) -> None:
    assert errors_of_produce(servers, "open") == [None]
    (error,) = errors_of_produce(servers, "closed")
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_librdkafka_lists_only_topics_that_it_may_describe(admin: AdminClient) -> None:
    assert set(admin.list_topics(timeout=TIMEOUT_S).topics) >= {"open"}
    assert "closed" not in admin.list_topics(timeout=TIMEOUT_S).topics


def test_librdkafka_cannot_join_a_group_that_it_may_not_read(servers: str) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "closed"})
    try:
        consumer.subscribe(["open"])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None and message.error() is not None
        assert message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    finally:
        consumer.close()


def test_librdkafka_describes_the_entries(admin: AdminClient) -> None:
    every = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    bindings = admin.describe_acls(every).result(TIMEOUT_S)
    assert {each.name for each in bindings} == {"closed"}


def test_librdkafka_cannot_add_partitions_without_permission(admin: AdminClient) -> None:
    adding = admin.create_partitions([NewPartitions("closed", 2)])["closed"]
    with pytest.raises(KafkaException) as caught:
        adding.result(TIMEOUT_S)
    assert caught.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


async def test_aiokafka_gets_the_error_of_a_topic(servers: str) -> None:
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait("open", b"value")
        with pytest.raises(TopicAuthorizationFailedError):
            await producer.send_and_wait("closed", b"value")
