"""Share consumers of both kinds with leaders of both kinds.

A broker of Apache Kafka coordinates the groups. The leader of topic `kafka` is this broker, and that of topic
`tidelog` a broker of Tidelog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from tests.kafka.kafka_node import MixedCluster
from tests.kafka.mixed_clients import MixedClients
from tests.reference_software.kafka_programs import Engine
from tests.support.cli import tidelog_output
from tidelog import AcknowledgeType, Producer, ShareConsumer
from tidelog.clients.consumer.consumer_types import ConsumerRecord

SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.share.record.lock.duration.ms": "15000",
}
TOPICS = {"kafka": 1, "tidelog": 2}
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
CONFIGS = "kafka.admin.ConfigCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    """Run a controller and a broker of Apache Kafka, and a broker of Tidelog."""
    mixed = MixedCluster(tmp_path_factory.mktemp("share-consumers"), settings=SETTINGS)
    mixed.add(100, Engine.KAFKA, "controller")
    mixed.add(1, Engine.KAFKA, "broker")
    mixed.add(2, Engine.TIDELOG, "broker")
    try:
        for node in mixed.nodes.values():
            mixed.format(node)
        mixed.start(mixed.nodes[100], mixed.nodes[1])
        clients = MixedClients(mixed)
        clients.wait_for_brokers(1)
        clients.create_topic("kafka", [[1], [1]])
        # The topics of the coordinators are created while Kafka's broker is the only one.
        earliest(mixed, "first")
        console(mixed, "kafka", "first", "--timeout-ms", "5000")
        mixed.start(mixed.nodes[2])
        clients.wait_for_brokers(1, 2)
        clients.create_topic("tidelog", [[2], [2]])
        yield mixed
    finally:
        mixed.end()


def earliest(cluster: MixedCluster, group: str) -> None:
    """Let a group start at the beginning."""
    servers = cluster.nodes[1].address
    options = ("--entity-type", "groups", "--entity-name", group)
    config = ("--alter", "--add-config", "share.auto.offset.reset=earliest")
    assert cluster.tool(CONFIGS, "--bootstrap-server", servers, *options, *config)


def console(cluster: MixedCluster, topic: str, group: str, *options: str) -> list[str]:
    """Return the lines that Kafka's share consumer prints."""
    servers = cluster.nodes[1].address
    arguments = ("--bootstrap-server", servers, "--topic", topic, "--group", group)
    return cluster.tool(CONSOLE, *arguments, *options).splitlines()


async def produce(cluster: MixedCluster, topic: str, *values: str) -> None:
    async with Producer(cluster.nodes[1].address) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value.encode(), partition=number % 2)
        await producer.flush()


async def poll_records(consumer: ShareConsumer, count: int) -> list[ConsumerRecord]:
    """Return the records of polls until there are `count`."""
    records: list[ConsumerRecord] = []
    for _ in range(60):
        for some in (await consumer.poll(1000)).values():
            records += some
        if len(records) >= count:
            break
    return records


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}{number:03}" for number in range(count)]


@pytest.mark.parametrize("topic", TOPICS)
async def test_our_share_consumers_share_the_records(cluster: MixedCluster, topic: str) -> None:
    group = f"implicit-{topic}"
    earliest(cluster, group)
    await produce(cluster, topic, *names("a", 200))
    options: dict[str, Any] = {
        "group_id": group,
        "max_poll_records": 10,
        "share_acquire_mode": "record_limit",
    }
    servers = cluster.nodes[1].address
    received: list[str] = []
    async with ShareConsumer(servers, **options) as one, ShareConsumer(servers, **options) as other:
        one.subscribe([topic])
        other.subscribe([topic])
        for _ in range(100):
            for consumer in (one, other):
                for records in (await consumer.poll(300)).values():
                    received += [str(record.value, "utf-8") for record in records]
            if len(received) >= 200:
                break
    assert sorted(received) == names("a", 200)


@pytest.mark.parametrize("topic", TOPICS)
async def test_explicit_acknowledgements_have_their_effects(cluster: MixedCluster, topic: str) -> None:
    group = f"explicit-{topic}"
    await produce(cluster, topic, *names("b", 40))
    earliest(cluster, group)
    wanted = dict.fromkeys(names("b", 40), 1)
    outcomes: dict[str, list[int]] = {value: [] for value in wanted}
    options: dict[str, Any] = {"group_id": group, "share_acknowledgement_mode": "explicit"}
    async with ShareConsumer(cluster.nodes[1].address, **options) as consumer:
        consumer.subscribe([topic])
        for _ in range(60):
            for records in (await consumer.poll(1000)).values():
                for record in records:
                    value = str(record.value, "utf-8")
                    count = consumer.delivery_count(record)
                    if value not in outcomes:
                        consumer.acknowledge(record)
                        continue
                    outcomes[value].append(count)
                    consumer.acknowledge(record, decision(value, len(outcomes[value])))
            if all(len(outcomes[value]) >= deliveries(value) for value in outcomes):
                break
        assert all(error is None for error in (await consumer.commit()).values())
        assert await consumer.poll(2000) == {}
    assert outcomes == {
        value: list(range(1, deliveries(value) + 1)) if int(value[1:]) % 4 != 3 else [1, 1]
        for value in outcomes
    }


def decision(value: str, times: int) -> AcknowledgeType:
    """Return the acknowledgement of a record that is returned for the given time."""
    kind = int(value[1:]) % 4
    if kind == 1:
        return AcknowledgeType.RELEASE
    if kind == 2:
        return AcknowledgeType.REJECT
    if kind == 3 and times == 1:
        return AcknowledgeType.RENEW
    return AcknowledgeType.ACCEPT


def deliveries(value: str) -> int:
    """Return how often `poll` returns a record: released ones until the delivery limit."""
    return {0: 1, 1: 5, 2: 1, 3: 2}[int(value[1:]) % 4]


@pytest.mark.parametrize("topic", TOPICS)
def test_kafkas_share_consumer_reads_and_releases(cluster: MixedCluster, topic: str) -> None:
    group = f"console-{topic}"
    earliest(cluster, group)
    released = console(cluster, topic, group, "--max-messages", "20", "--release")
    assert len(released) >= 20
    accepted: list[str] = []
    for _ in range(10):
        accepted += console(cluster, topic, group, "--max-messages", "20")
        if set(released) <= set(accepted):
            break
    assert set(released) <= set(accepted)
    assert len(accepted) == len(set(accepted)), "an accepted record is not delivered again"


async def test_the_command_line_reads_as_a_member_of_a_share_group(cluster: MixedCluster) -> None:
    earliest(cluster, "commands")
    await produce(cluster, "tidelog", *names("c", 5))
    options = ("consume", "tidelog", "--share", "commands", "-f", r"%s\n", "--timeout-ms")
    servers = cluster.nodes[2].address
    first = await asyncio.to_thread(tidelog_output, *options, "60000", "-n", "3", bootstrap=servers)
    rest = await asyncio.to_thread(tidelog_output, *options, "12000", bootstrap=servers)
    assert len(first.split()) == 3
    assert set(names("c", 5)) <= {*first.split(), *rest.split()}
    assert not {*first.split()} & {*rest.split()}
