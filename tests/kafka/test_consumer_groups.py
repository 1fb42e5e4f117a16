"""Consumer groups (KIP-848) with Java clients, and with a coordinator that moves to Apache Kafka and back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.kafka.kafka_node import Node
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.one_kafka import run_one_kafka
from tests.kafka.tools import KafkaTools
from tests.kafka.two_brokers import run_two_brokers
from tests.reference_software.kafka_programs import WITHIN_S
from tests.support.waiting import wait_until
from tidelog import Consumer as OwnConsumer
from tidelog import SubscriptionPattern
from tidelog.protocol.errors import ErrorCode, KafkaError

JARS = Path(os.environ["TIDELOG_KAFKA_JARS"])
NEW_PROTOCOL = ("--command-property", "group.protocol=consumer")
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "100",
}
PARTITIONS = 4
RECORDS = 200


def test_java_consumers_read_with_the_new_protocol(tools: KafkaTools) -> None:
    tools.run("kafka-topics", "--create", "--topic", "waves", "--partitions", str(PARTITIONS))
    lines = [f"wave {number}" for number in range(100)]
    tools.run("kafka-console-producer", "--topic", "waves", stdin="\n".join(lines))
    group = ("--group", "surfers", "--from-beginning", "--timeout-ms", "30000")
    for source in (("--topic", "waves"), ("--include", "wav.*")):
        arguments = (*source, *group, "--max-messages", "100", *NEW_PROTOCOL)
        read = tools.run("kafka-console-consumer", *arguments)
        assert sorted(read.splitlines()) == sorted(lines)
        reset = ("--reset-offsets", "--group", "surfers", "--topic", "waves", "--to-earliest", "--execute")
        tools.run("kafka-consumer-groups", *reset)
    listed = tools.run("kafka-consumer-groups", "--list", "--type", "consumer", "--state")
    assert "surfers" in listed and "Empty" in listed, listed
    tools.run("kafka-consumer-groups", "--delete", "--group", "surfers")
    assert "surfers" not in tools.run("kafka-consumer-groups", "--list")


def test_the_coordinator_of_kafka_matches_the_subscription_pattern_of_our_consumer(tmp_path: Path) -> None:
    with run_one_kafka(tmp_path) as (cluster, node):
        servers = node.address
        clients = MixedClients(cluster)
        for topic in ("tides", "tides-2", "waves"):
            clients.create_topic(topic, [[1], [1]])
            clients.produce(topic, [topic] * 4, 2)
        assert asyncio.run(read_pattern(servers, "tid[e].*", 8)) == ["tides"] * 4 + ["tides-2"] * 4
        shown = cluster.tool(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            *("--bootstrap-server", servers, "--describe", "--group", "patterns", "--offsets"),
        )
        assert "tides-2" in shown and "waves" not in shown, shown
        with pytest.raises(KafkaError) as error:
            asyncio.run(read_pattern(servers, "(?=t)", 1))
        assert error.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def read_pattern(servers: str, pattern: str, count: int) -> list[str]:
    """Return the sorted values of at least `count` records of topics that match."""
    values: list[str] = []
    consumer = OwnConsumer(
        servers, group_id="patterns", group_protocol="consumer", auto_offset_reset="earliest"
    )
    async with consumer, asyncio.timeout(WITHIN_S):
        consumer.subscribe(pattern=SubscriptionPattern(pattern))
        while len(values) < count:
            for records in (await consumer.poll(200)).values():
                values += [(record.value or b"").decode() for record in records]
    return sorted(values)


class Members:
    """Two members of one group, one with an expression, that are polled while the cluster changes."""

    def __init__(self, servers: str) -> None:
        self.consumers = [
            self._consumer(servers, name, assignor) for name, assignor in (("a", "range"), ("b", None))
        ]
        self.consumers[0].subscribe(["tides"])
        self.consumers[1].subscribe(["^tid.*"])

    def _consumer(self, servers: str, name: str, assignor: str | None) -> Consumer:
        config = {
            "bootstrap.servers": servers,
            "client.id": name,
            "group.id": "moving",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
        return Consumer(config if assignor is None else {**config, "group.remote.assignor": assignor})

    def poll(self) -> list[list[int]]:
        """Poll each member, and return the partitions of each."""
        for consumer in self.consumers:
            consumer.poll(0.05)
        return [sorted(each.partition for each in consumer.assignment()) for consumer in self.consumers]

    def commit(self) -> None:
        """Commit the end of each partition as all members."""
        for consumer in self.consumers:
            ends = [
                TopicPartition(each.topic, each.partition, RECORDS // PARTITIONS)
                for each in consumer.assignment()
            ]
            consumer.commit(offsets=ends, asynchronous=False)

    def close(self) -> None:
        for consumer in self.consumers:
            consumer.close()


def descriptions(tools: KafkaTools, coordinator: Node) -> list[str]:
    """Return what Kafka's programs show of the group and its topic, without the coordinator's address."""
    host, _, port = coordinator.address.partition(":")
    shown = []
    for options in (("--offsets",), ("--members", "--verbose"), ("--state", "--verbose")):
        text = tools.run("kafka-consumer-groups", "--describe", "--group", "moving", *options)
        text = text.replace(f"{host}:{port}", "COORDINATOR").replace(f"({coordinator.number})", "(ID)")
        shown.append("\n".join(sorted(" ".join(line.split()) for line in text.splitlines())))
    shown.append(tools.run("kafka-consumer-groups", "--list", "--type", "consumer", "--state"))
    for time in ("-1", "-2", "-3"):
        shown.append(tools.run("kafka-get-offsets", "--topic", "tides", "--time", time))
    return shown


def test_a_group_keeps_epochs_members_and_partitions_when_its_coordinator_moves_to_kafka_and_back(
    tmp_path: Path,
) -> None:
    with run_two_brokers(tmp_path, SETTINGS) as (cluster, clients, ours, kafkas):
        clients.create_topic("__consumer_offsets", [[1, 3]], cleanup_policy="compact")
        clients.create_topic("tides", [[3, 1], [1, 3]] * (PARTITIONS // 2))
        clients.produce("tides", [str(number) for number in range(RECORDS)], PARTITIONS)
        members = Members(cluster.bootstrap_servers)
        wait_until(lambda: sorted(map(len, members.poll())) == [2, 2], timeout_s=WITHIN_S)
        before = members.poll()
        members.commit()
        tools = KafkaTools(JARS, cluster.bootstrap_servers)
        expected = descriptions(tools, ours)
        assert "Stable" in expected[2]
        for stopped, coordinator in ((ours, kafkas), (kafkas, ours)):
            cluster.stop(stopped)
            clients.wait_for_leader_other_than(stopped, "__consumer_offsets")
            for _ in range(40):
                members.poll()
            assert members.poll() == before
            members.commit()
            assert descriptions(tools, coordinator) == expected
            cluster.start(stopped)
            clients.wait_for_brokers(1, 3)
            clients.wait_until_whole("__consumer_offsets")
            clients.wait_until_whole("tides")
            wait_until(lambda: members.poll() == before, timeout_s=WITHIN_S)
        members.close()
