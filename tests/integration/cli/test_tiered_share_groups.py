"""Share groups read records that are only in an S3 bucket, below the start of the local log."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from uuid import uuid4

import pytest
from confluent_kafka import ShareConsumer as LibrdkafkaShareConsumer

from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.s3.server import S3Server, s3_server
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog import AcknowledgeType, ShareConsumer
from tidelog.clients.admin.admin import Admin, ConfigChange, ConfigResource, ResourceType
from tidelog.testing.embedded import EmbeddedCluster

RECORDS = 4000
BATCH = 100


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[S3Server, str]]:
    """Run an S3 server with an empty bucket."""
    with s3_server() as server, server.bucket() as name:
        yield server, name


@pytest.fixture(scope="module")
def cluster(bucket: tuple[S3Server, str]) -> Iterator[EmbeddedCluster]:
    """Run one node whose remote storage is the bucket."""
    server, name = bucket
    store = {f"rsm.config.storage.{key}": value for key, value in server.config(name).items()}
    config = {
        "rsm.config.storage.backend.class": "s3",
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": "200",
        **store,
    }
    with EmbeddedCluster(tiered=True, config=config) as running:
        yield running


@pytest.fixture
def remote_topic(
    bucket: tuple[S3Server, str], topic: str, tiered: TieredTopics, client_factory: ClientFactory
) -> str:
    """Return a topic most of whose records are in the bucket only."""
    sent = [Message(b"%d " % number + bytes(900)) for number in range(RECORDS)]
    client_factory.produce(CLIENTS["confluent"], topic, sent, idempotent=True)
    border = tiered.wait_until_tiered(topic)
    assert 0 == border.log_start < RECORDS // 2 < border.local_start < border.log_end == RECORDS
    server, name = bucket
    keys = [each["Key"] for each in server.client().list_objects_v2(Bucket=name).get("Contents", [])]
    assert any(topic in key and key.endswith(".log") for key in keys), keys
    return topic


def new_group(servers: str, **configs: str) -> str:
    """Return a group that starts at the first record."""
    name = f"workers-{uuid4().hex[:8]}"
    values = {"share.auto.offset.reset": "earliest", **configs}

    async def configure() -> None:
        async with Admin(servers) as admin:
            resource = ConfigResource(ResourceType.GROUP, name)
            changes = [ConfigChange(name=key, value=value) for key, value in values.items()]
            assert (await admin.incremental_alter_configs({resource: changes}))[resource] is None

    asyncio.run(configure())
    return name


def number_of(value: bytes | None) -> int:
    return int((value or b"").split()[0])


def test_two_members_of_librdkafka_get_each_remote_and_local_record_once(
    remote_topic: str, cluster: EmbeddedCluster
) -> None:
    servers = cluster.bootstrap_servers
    group = new_group(servers)
    consumers = [LibrdkafkaShareConsumer({"bootstrap.servers": servers, "group.id": group}) for _ in range(2)]
    received: list[int] = []

    def has_all() -> bool:
        for consumer in consumers:
            for message in consumer.poll(0.1):
                assert message.error() is None, message.error()
                received.append(number_of(message.value()))
        return len(received) >= RECORDS

    try:
        for consumer in consumers:
            consumer.subscribe([remote_topic])
        wait_until(has_all)
    finally:
        for consumer in consumers:
            consumer.close()
    assert sorted(received) == list(range(RECORDS))


async def test_a_released_remote_record_is_read_from_the_bucket_again(
    remote_topic: str, cluster: EmbeddedCluster
) -> None:
    servers = cluster.bootstrap_servers
    group = await asyncio.to_thread(new_group, servers)
    deliveries: Counter[int] = Counter()
    async with ShareConsumer(
        servers, group_id=group, share_acknowledgement_mode="explicit", max_poll_records=BATCH
    ) as consumer:
        consumer.subscribe([remote_topic])
        async with asyncio.timeout(TIMEOUT_S):
            while len(deliveries) < RECORDS or any(deliveries[n] < 2 for n in range(0, RECORDS, 100)):
                for records in (await consumer.poll(500)).values():
                    for record in records:
                        number = number_of(record.value)
                        deliveries[number] += 1
                        is_released = number % 100 == 0 and deliveries[number] == 1
                        kind = AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT
                        consumer.acknowledge(record, kind)
                assert not any((await consumer.commit()).values())
    assert deliveries == Counter({n: 2 if n % 100 == 0 else 1 for n in range(RECORDS)})
