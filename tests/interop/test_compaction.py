"""Topics that are compacted while clients write and read them, and groups whose offsets are compacted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from tests.support.logs.compaction import latest_of, read_log
from tests.support.waiting import wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.embedded import EmbeddedCluster

pytestmark = pytest.mark.interop

CONFIG = {
    "log.cleaner.backoff.ms": "20",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.roll.ms": "50",
    "log.retention.check.interval.ms": "30",
    "log.flush.scheduler.interval.ms": "20",
    "log.segment.delete.delay.ms": "100",
    "offsets.topic.num.partitions": "1",
}
KEYS = 50


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    """Run a broker that seals and compacts continuously."""
    with EmbeddedCluster(config=CONFIG) as running:
        yield running


def log_of(node: BrokerNode, topic: str) -> PartitionLog:
    (log,) = [log for log in node.services.logs.logs if log.topic_partition.topic == topic]
    return log


def is_compacted(node: BrokerNode, topic: str) -> bool:
    """Return whether the whole log is clean, including the active segment."""
    log = log_of(node, topic)
    return log.first_dirty_offset == log.log_end_offset


def values(messages: list[Message]) -> dict[bytes, bytes | None]:
    return {message.key(): message.value() for message in messages}


def read_all(consumer: Consumer, topic: str, end: int) -> list[Message]:
    """Read from the start up to the offset `end`, which has no record yet."""
    records: list[Message] = []
    consumer.assign([TopicPartition(topic, 0, 0)])

    def is_at_end() -> bool:
        records.extend(one for one in consumer.consume(500, 0.05) if one.error() is None)
        return consumer.position([TopicPartition(topic, 0)])[0].offset >= end

    wait_until(is_at_end)
    return records


def test_a_consumer_of_a_topic_during_compaction_reads_every_latest_record(
    cluster: EmbeddedCluster, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(1, {"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
    reader = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "r", "fetch.wait.max.ms": 10}
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    expected: dict[bytes, bytes] = {}
    received: list[Message] = []
    for number in range(60):
        for key in range(KEYS):
            expected[b"key-%d" % key] = b"%d-%d" % (number, key)
            producer.produce(topic, key=b"key-%d" % key, value=b"%d-%d" % (number, key))
        producer.flush()
        received += (one for one in reader.consume(200, 0.02) if one.error() is None)
    wait_until(lambda: cluster.run(lambda node: is_compacted(node, topic)))

    def has_read_all() -> bool:
        received.extend(one for one in reader.consume(500, 0.05) if one.error() is None)
        return values(received) == expected

    wait_until(has_read_all)
    offsets = [message.offset() for message in received]
    assert offsets == sorted(set(offsets))
    reader.close()
    for clean in (True, False):
        cluster.restart(clean=clean)
        again = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "r"})
        records = read_all(again, topic, 60 * KEYS)
        again.close()
        assert values(records) == expected
        assert len(records) == KEYS


def test_groups_are_equal_after_their_compacted_offsets_are_loaded(
    cluster: EmbeddedCluster, new_topic: Callable[..., str]
) -> None:
    topic, group = new_topic(1), f"group-{uuid4().hex[:8]}"
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
    for offset in range(1, 301):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()
    wait_until(lambda: cluster.run(lambda node: is_compacted(node, "__consumer_offsets")))

    def count_records(node: BrokerNode) -> tuple[int, int]:
        records = read_log(log_of(node, "__consumer_offsets"))
        return len(records), len(latest_of(records))

    count, latest = cluster.run(count_records)
    assert count == latest < 20
    for clean in (True, False):
        cluster.restart(clean=clean)
        again = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": group})
        (committed,) = again.committed([TopicPartition(topic, 0)], timeout=20)
        again.close()
        assert committed.offset == 300


def test_a_topic_whose_policy_becomes_compact_does_not_wait_for_the_back_off() -> None:
    with EmbeddedCluster(config=CONFIG | {"log.cleaner.backoff.ms": "3600000"}) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("t", 1)])["t"].result()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(10):
            producer.produce("t", key=b"key", value=b"%d" % number)
        producer.flush()

        def is_sealed(node: BrokerNode) -> bool:
            log = log_of(node, "t")
            return log.durability.recovery_point == log.segments.active.base_offset == 10

        wait_until(lambda: cluster.run(is_sealed))
        entry = ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result()
        wait_until(lambda: cluster.run(lambda node: is_compacted(node, "t")))
