"""Spark reads a bucket and remote log metadata that were written by Apache Kafka's broker only.

Needs Aiven's plugin in TIDELOG_AIVEN_CLASSPATH.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from pyspark.sql import SparkSession

from tests.kafka.kafka_node import WITHIN_S, Engine, MixedCluster
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.mixed_tiering import METADATA_TOPIC, TIERED, tiered_settings
from tests.support.spark.local_spark import local_spark
from tests.support.spark.streams import Stream
from tests.support.spark.topics import rows_by_offset, varied_records
from tests.support.tier.audit import Borders, TierAudit
from tests.support.tier.segment_configs import encryption_configs, key_pair, write_key_pair
from tests.support.waiting import wait_until
from tidelog.local_cluster.ports import free_ports

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TRANSACTIONS = "transactions"
TOPICS = (*CODECS, TRANSACTIONS)
RECORDS = varied_records(3000, 500)


class KafkaTier:
    """One process of Apache Kafka that is broker and controller, with Aiven's plugin over a directory."""

    def __init__(self, root: Path) -> None:
        bucket = root / "bucket"
        bucket.mkdir()
        encryption = encryption_configs(*write_key_pair(key_pair(), root))
        settings = {
            **tiered_settings(bucket),
            **{f"rsm.config.{key}": text for key, text in encryption.items()},
        }
        self.store = {key: text for key, text in settings.items() if key.startswith("rsm.config.")}
        plugin = os.environ["TIDELOG_AIVEN_CLASSPATH"].split(os.pathsep)
        self.cluster = MixedCluster(root, settings=settings, plugins=plugin)
        self.node = self.cluster.add(1, Engine.KAFKA, "broker,controller")
        (port,) = free_ports(1)
        controller = f"127.0.0.1:{port}"
        self.node.settings["listeners"] = f"PLAINTEXT://{self.node.address},CONTROLLER://{controller}"
        self.node.settings["controller.quorum.voters"] = f"1@{controller}"
        self.servers = self.node.address
        self.clients = MixedClients(self.cluster)
        self._audit = TierAudit(self.servers, bucket)

    def start(self) -> None:
        """Start it with the next leader epoch."""
        self.cluster.start(self.node)
        self.clients.wait_for_brokers(1)
        wait_until(
            lambda: METADATA_TOPIC in self.clients.admin().list_topics(timeout=10).topics, timeout_s=WITHIN_S
        )

    def write(self, topic: str, first: int, count: int) -> None:
        """Write records with a compression of librdkafka."""
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "compression.type": topic,
                "linger.ms": 50,
                # A batch must be smaller than a segment.
                "batch.size": 20_000,
            }
        )
        failed: list[str] = []
        for one in RECORDS[first : first + count]:
            producer.produce(
                topic,
                one.value,
                one.key,
                0,
                timestamp=one.timestamp_ms,
                headers=list(one.headers) or None,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        assert producer.flush(WITHIN_S) == 0
        assert failed == []

    def write_transactions(self, count: int) -> None:
        """Write transactions through the broker's own coordinator; every other one is aborted."""
        producer = Producer({"bootstrap.servers": self.servers, "transactional.id": "tides"})
        producer.init_transactions(WITHIN_S)
        for number in range(count):
            producer.begin_transaction()
            for one in RECORDS[100 * number : 100 * number + 100]:
                producer.produce(TRANSACTIONS, one.value, one.key, 0)
            producer.flush(WITHIN_S)
            if number % 2 == 0:
                producer.abort_transaction(WITHIN_S)
            else:
                producer.commit_transaction(WITHIN_S)

    def wait_until_tiered(self, topic: str) -> Borders:
        """Wait until only the tier has all but the active segment."""
        folder = self.node.directory / f"{topic}-0"

        def is_tiered() -> bool:
            offsets = [int(path.stem) for path in folder.glob("*.log")]
            return offsets == [self._audit.borders(topic).tiered_end]

        wait_until(is_tiered, timeout_s=WITHIN_S)
        return self._audit.borders(topic)

    def consumed(self, topic: str, isolation: str) -> list[tuple[Any, ...]]:
        """Return offset, key, value, headers and time of the records that librdkafka's consumer gets."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
            }
        )
        consumer.assign([TopicPartition(topic, 0, 0)])
        rows: list[tuple[Any, ...]] = []
        try:
            while (message := consumer.poll(WITHIN_S)) is not None:
                error = message.error()
                if error is None:
                    rows.append(as_row(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return rows
            raise AssertionError(f"{topic} was not read to its end")
        finally:
            consumer.close()


def as_row(message: Message) -> tuple[Any, ...]:
    headers = message.headers()
    return (
        message.offset(),
        message.key(),
        message.value(),
        None if headers is None else [tuple(one) for one in headers],
        message.timestamp()[1],
    )


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTier]:
    """Create topics of two leader epochs, most of whose records are in the tier."""
    new_tier = KafkaTier(tmp_path_factory.mktemp("tier"))
    try:
        new_tier.cluster.format(new_tier.node)
        new_tier.start()
        small = {**TIERED, "internal_segment_bytes": "200000", "index_interval_bytes": "1000"}
        for topic in TOPICS:
            new_tier.clients.create_topic(topic, [[1]], **small)
        for codec in CODECS:
            new_tier.write(codec, 0, 1500)
        new_tier.write_transactions(10)
        new_tier.cluster.stop(new_tier.node)
        new_tier.start()
        for codec in CODECS:
            new_tier.write(codec, 1500, 1500)
        new_tier.write_transactions(15)
        yield new_tier
    finally:
        new_tier.cluster.end()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    with local_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


def by_topic(rows: list[dict[str, Any]]) -> dict[str, list[tuple[Any, ...]]]:
    rows_by_topic = {}
    for topic in TOPICS:
        of_topic = sorted((row for row in rows if row["topic"] == topic), key=lambda row: row["offset"])
        offsets = [row["offset"] for row in of_topic]
        rows_by_topic[topic] = [
            (offset, *row) for offset, row in zip(offsets, rows_by_offset(of_topic), strict=True)
        ]
    return rows_by_topic


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_batch_streaming_and_offline_reads_equal_a_consumers(
    isolation: str, tier: KafkaTier, spark: SparkSession, tmp_path: Path
) -> None:
    borders = {topic: tier.wait_until_tiered(topic) for topic in TOPICS}
    assert all(0 < one.tiered_end < one.end for one in borders.values()), borders
    consumed = {topic: tier.consumed(topic, isolation) for topic in TOPICS}
    assert [row[1:] for row in consumed["zstd"]] == [one.row() for one in RECORDS]
    options = {
        "subscribe": ",".join(TOPICS),
        "includeHeaders": "true",
        "kafka.isolation.level": isolation,
        **tier.store,
    }

    def read(mode: str, **more: str) -> dict[str, list[tuple[Any, ...]]]:
        frame = spark.read.format("tidelog").options(tier=mode, **options, **more).load()
        return by_topic(frame.toArrow().to_pylist())

    servers = {"kafka.bootstrap.servers": tier.servers}
    assert read("direct", maxBytesPerPartition="300000", **servers) == consumed
    stream = Stream(spark, tier.servers, tmp_path, tier="direct", startingOffsets="earliest", **options)
    stream.run()
    assert by_topic(stream.rows()) == consumed
    assert read("offline") == {
        topic: [row for row in rows if row[0] < borders[topic].tiered_end] for topic, rows in consumed.items()
    }
