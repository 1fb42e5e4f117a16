"""Apache Kafka's broker alone, with Aiven's plugin: fills a bucket and reads it.

Needs Aiven's plugin in TIDELOG_AIVEN_CLASSPATH.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.kafka.kafka_node import MixedCluster
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.mixed_tiering import METADATA_TOPIC, TIERED, tiered_settings
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.spark.topics import varied_records
from tests.support.tier.audit import Borders, TierAudit
from tests.support.tier.segment_configs import encryption_configs, key_pair, write_key_pair
from tests.support.waiting import wait_until
from tidelog.local_cluster.ports import free_ports

TRANSACTIONS: Final = "transactions"
SMALL_SEGMENTS: Final = {**TIERED, "internal_segment_bytes": "200000", "index_interval_bytes": "1000"}
RECORDS: Final = varied_records(3000, 500)


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

    def consume_all(self, topic: str, isolation: str) -> list[tuple[Any, ...]]:
        """Return the records of a topic as `consume_all` does."""
        return consume_all(self.servers, topic, isolation)


def consume_all(servers: str, topic: str, isolation: str) -> list[tuple[Any, ...]]:
    """Return offset, key, value, headers and time of the records that librdkafka's consumer gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
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
