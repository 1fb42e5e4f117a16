"""A Kafka Streams application with the streams protocol; its coordinator moves between both kinds of broker.

Words are counted exactly once. An instance is killed, and another one is added; each process has standby
tasks of the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka.kafka_node import Node
from tests.kafka.mixed_clients import MixedClients
from tests.kafka.streams_application import CountReader, Instance
from tests.kafka.tools import KafkaTools
from tests.kafka.two_brokers import ONE_COORDINATOR, TwoBrokers, run_two_brokers
from tests.reference_software.kafka_programs import WITHIN_S
from tests.support.waiting import wait_until

SETTINGS = {
    **ONE_COORDINATOR,
    "default.replication.factor": "2",
    "group.streams.num.standby.replicas": "1",
    "group.streams.session.timeout.ms": "8000",
    "group.streams.min.session.timeout.ms": "1000",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "1000",
}
LINES = 400
WORDS = 20
GROUP = ("--group", "words")
INTERNAL = ("words-words-repartition", "words-words-changelog")


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Run both brokers, of which Kafka's coordinates groups and transactions."""
    with run_two_brokers(tmp_path, SETTINGS) as brokers:
        clients = brokers.clients
        clients.create_topic("__consumer_offsets", [[3, 1]], cleanup_policy="compact")
        clients.create_topic("__transaction_state", [[3, 1]], cleanup_policy="compact")
        clients.create_topic("lines", [[3, 1], [1, 3], [3, 1]])
        clients.create_topic("counts", [[1, 3]])
        yield brokers


class Words:
    """Writes lines, and knows the count of each word."""

    def __init__(self, clients: MixedClients) -> None:
        self.counts: Counter[str] = Counter()
        self._clients = clients

    def write(self) -> None:
        """Write lines of two words."""
        lines = [f"word{number % WORDS} line" for number in range(LINES)]
        self._clients.produce("lines", lines, 3)
        for line in lines:
            self.counts.update(line.split())


def stop(brokers: TwoBrokers, node: Node) -> None:
    """Stop a broker, and wait until the other one coordinates the group."""
    brokers.cluster.stop(node)
    for topic in ("__consumer_offsets", "__transaction_state"):
        brokers.clients.wait_for_leader_other_than(node, topic)


def restart(brokers: TwoBrokers, node: Node) -> None:
    """Start a broker again, and wait until its replicas are in sync."""
    brokers.cluster.start(node)
    brokers.clients.wait_for_brokers(1, 3)
    for topic in ("__consumer_offsets", "__transaction_state", "lines", "counts", *INTERNAL):
        brokers.clients.wait_until_whole(topic)


def wait_until_stable(brokers: TwoBrokers, node: Node, *, members: int) -> None:
    """Wait until Kafka's tool describes a stable group with so many members."""
    tools = KafkaTools(brokers.cluster.jars, node.address)

    def is_stable() -> bool:
        lines = tools.run("kafka-streams-groups", "--describe", *GROUP, "--state").splitlines()
        return any("Stable" in line and line.split()[-1] == str(members) for line in lines)

    wait_until(is_stable, timeout_s=WITHIN_S)


def test_words_are_counted_exactly_once_while_the_coordinator_moves(
    brokers: TwoBrokers, tmp_path: Path
) -> None:
    cluster, clients, ours, kafkas = brokers
    words, reader = Words(clients), CountReader(cluster.bootstrap_servers)

    def start(name: str) -> Instance:
        return Instance.start(cluster.jars, cluster.bootstrap_servers, tmp_path / name, "exactly_once_v2")

    instances = [start("first"), start("second")]
    try:
        words.write()
        for instance in instances:
            instance.wait_until_running()
        reader.wait_for(words.counts)
        # The coordinator of Tidelog continues with the records of Kafka's.
        stop(brokers, kafkas)
        words.write()
        reader.wait_for(words.counts)
        wait_until_stable(brokers, ours, members=2)
        instances[0].kill()
        instances.append(start("third"))
        instances[2].wait_until_running()
        words.write()
        reader.wait_for(words.counts)
        wait_until_stable(brokers, ours, members=2)
        restart(brokers, kafkas)
        # The coordinator of Kafka continues with the records of Tidelog's.
        stop(brokers, ours)
        words.write()
        reader.wait_for(words.counts)
        wait_until_stable(brokers, kafkas, members=2)
        restart(brokers, ours)
        for instance in instances[1:]:
            instance.close()
    finally:
        reader.close()
        for instance in instances:
            instance.kill()
    assert reader.repeated == 0, "a word was counted twice"
