"""MirrorMaker 2 of Apache Kafka copies a cluster to Tidelog, as docs/migration.md describes it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.kafka_node import MixedCluster
from tests.kafka.one_kafka import run_one_kafka
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from tidelog.base.properties import parse_properties, properties_text
from tidelog.testing.embedded import EmbeddedCluster

COUNT = 200
COMMITTED = 120
WITHIN_S = 240.0
FAST = {
    "replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.lag.max": "0",
    "old->new.sync.group.offsets.interval.seconds": "2",
    "old->new.emit.checkpoints.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
    "refresh.topics.interval.seconds": "2",
}
"""For one broker each, and without waiting for the intervals of a production cluster."""


@pytest.fixture(scope="module")
def old_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Run one process of Apache Kafka that is broker and controller."""
    jars = Path(os.environ["TIDELOG_KAFKA_JARS"])
    if not list(jars.glob("connect-mirror-*.jar")):
        pytest.skip(f"{jars} has no connect-mirror: run the mvn of `make test-kafka-tools`")
    with run_one_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
        yield kafka.cluster


def documented_properties(old: str, new: str) -> dict[str, str]:
    """Return the settings in docs/migration.md, for these two clusters."""
    text = (ROOT / "docs/migration.md").read_text()
    block = text.partition("```properties\n")[2].partition("```")[0]
    servers = {"old.bootstrap.servers": old, "new.bootstrap.servers": new}
    return {**parse_properties(block), **servers, **FAST}


@contextmanager
def running_mirror_maker(cluster: MixedCluster, properties: dict[str, str]) -> Iterator[Path]:
    """Run MirrorMaker until the end of the block; yield the path of its output."""
    config, output = cluster.root / "mm2.properties", cluster.root / "mirror-maker.out"
    config.write_text(properties_text(properties))
    logging = f"-Dlog4j2.configurationFile={cluster.root}/tool-log4j2.properties"
    command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", logging, "-cp", f"{cluster.jars}/*"]
    with output.open("wb") as file:
        process = subprocess.Popen(
            [*command, "org.apache.kafka.connect.mirror.MirrorMaker", str(config)],
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield output
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def consume(servers: str, group: str, count: int, *, commits: bool) -> list[Message]:
    """Return records that a member of the group reads."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["tides"])
    messages: list[Message] = []

    def read() -> bool:
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            messages.append(message)
        return len(messages) >= count

    try:
        wait_until(read, f"{count} records", timeout_s=WITHIN_S)
        if commits:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return messages


def committed_offset(admin: AdminClient, group: str) -> int:
    """Return the committed offset of partition 0, -1001 without one."""
    request = ConsumerGroupTopicPartitions(group, [TopicPartition("tides", 0)])
    result = admin.list_consumer_group_offsets([request])[group].result()
    return int(result.topic_partitions[0].offset)


def test_records_and_committed_offsets_move_to_the_new_cluster(old_cluster: MixedCluster) -> None:
    old = old_cluster.bootstrap_servers
    with EmbeddedCluster() as new_cluster:
        new = new_cluster.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": old})
        admin.create_topics([NewTopic("tides", 1, 1, config={"retention.ms": "-1"})])["tides"].result()
        producer = Producer({"bootstrap.servers": old})
        for number in range(COUNT):
            producer.produce(
                "tides",
                b"level %d" % number,
                key=b"brest",
                headers=[("n", b"%d" % number)],
                timestamp=1000 + number,
            )
        producer.flush()
        consume(old, "harbour", COMMITTED, commits=True)
        with running_mirror_maker(old_cluster, documented_properties(old, new)) as output:
            try:
                copied = consume(new, "comparison", COUNT, commits=False)
                new_admin = AdminClient({"bootstrap.servers": new})
                wait_until(
                    lambda: committed_offset(new_admin, "harbour") > 0, "the offset", timeout_s=WITHIN_S
                )
                translated = committed_offset(new_admin, "harbour")
            except AssertionError as error:
                raise AssertionError(f"{error}\n{output.read_text()[-5000:]}") from error
        assert [each.value() for each in copied] == [b"level %d" % number for number in range(COUNT)]
        assert {each.key() for each in copied} == {b"brest"}
        assert [each.headers() for each in copied] == [[("n", b"%d" % number)] for number in range(COUNT)]
        assert [each.timestamp()[1] for each in copied] == [1000 + number for number in range(COUNT)]
        # MirrorMaker remembers few pairs of offsets: records may be read again, and none is left out.
        assert 0 < translated <= COMMITTED
        rest = consume(new, "harbour", COUNT - translated, commits=True)
        assert [each.offset() for each in rest] == list(range(translated, COUNT))
