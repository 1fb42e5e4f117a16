"""One group with members of five authors migrates to the consumer protocol and back.

The Java consumer needs the jars of Apache Kafka: `make test-java-clients` runs this test.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupType, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.kafka.tools import KafkaTools
from tests.support.foreign_clients.group_members import (
    AiokafkaMember,
    GroupMember,
    JavaMember,
    LibrdkafkaMember,
    PythonMember,
    TidelogMember,
)
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.testing.embedded import EmbeddedCluster

JARS = Path(os.environ["TIDELOG_KAFKA_JARS"])
GROUP, TOPIC = "migrating", "tides"
PARTITIONS = 8
RECORDS = 400
WITHIN_S = 90
CONFIG = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
}


@pytest.fixture
def servers() -> Iterator[str]:
    """Run a broker whose members send heartbeats often."""
    with EmbeddedCluster(config=CONFIG) as cluster:
        yield cluster.bootstrap_servers


class Group:
    """The members of the group, and the records of the topic."""

    def __init__(self, servers: str) -> None:
        self.members: list[GroupMember] = []
        self._servers = servers
        self._ends = Counter[int]()
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        self._admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)

    def wait_until_shared(self) -> None:
        """Wait until each partition has one owner, and no member has more than one more than another."""

        def is_shared() -> bool:
            for member in self.members:
                member.poll()
            owned = [sorted(member.partitions) for member in self.members]
            counts = list(map(len, owned))
            return (
                sorted(itertools.chain(*owned)) == list(range(PARTITIONS)) and max(counts) - min(counts) <= 1
            )

        wait_until(is_shared, "each partition has one owner", timeout_s=WITHIN_S)

    def produce_and_receive(self) -> None:
        """Produce records; each must be received once, by the owner of its partition."""
        starts = Counter(self._ends)
        for number in range(RECORDS):
            self._producer.produce(TOPIC, b"high", partition=number % PARTITIONS)
            self._ends[number % PARTITIONS] += 1
        assert self._producer.flush(30) == 0
        expected = {
            (partition, offset)
            for partition in range(PARTITIONS)
            for offset in range(starts[partition], self._ends[partition])
        }

        def new_records() -> list[tuple[int, int]]:
            for member in self.members:
                member.poll()
            return [record for member in self.members for record in member.received if record in expected]

        wait_until(lambda: len(new_records()) >= RECORDS, "all records", timeout_s=WITHIN_S)
        assert Counter(new_records()) == Counter(expected)
        for member in self.members:
            read = {partition for partition, offset in member.received if (partition, offset) in expected}
            assert read == member.partitions

    def listed_type(self) -> ConsumerGroupType:
        """Return the type of the group, as librdkafka's admin client lists it."""
        listed = self._admin.list_consumer_groups().result(TIMEOUT_S)
        group_type: ConsumerGroupType = next(each.type for each in listed.valid if each.group_id == GROUP)
        return group_type

    def remove(self, members: Sequence[GroupMember]) -> None:
        """Let members leave, while the others are polled."""
        for member in members:
            self.members.remove(member)
            member.close()


def test_clients_of_five_authors_share_a_group_while_it_migrates(servers: str, tmp_path: Path) -> None:
    group = Group(servers)
    place = (servers, GROUP, TOPIC)
    with ExitStack() as stack:

        def join(member: GroupMember) -> GroupMember:
            group.members.append(member)
            stack.callback(lambda: member in group.members and member.close())
            return member

        join(PythonMember(*place))
        join(AiokafkaMember(*place))
        join(LibrdkafkaMember.classic(*place))
        join(JavaMember(*place, JARS, tmp_path / "classic", "classic"))
        group.wait_until_shared()
        assert group.listed_type() is ConsumerGroupType.CLASSIC
        group.produce_and_receive()

        new = [
            join(LibrdkafkaMember.new(*place)),
            join(TidelogMember(*place)),
            join(JavaMember(*place, JARS, tmp_path / "new", "consumer")),
        ]
        group.wait_until_shared()
        assert group.listed_type() is ConsumerGroupType.CONSUMER
        group.produce_and_receive()
        described = KafkaTools(JARS, servers).run(
            "kafka-consumer-groups", "--describe", "--group", GROUP, "--members", "--verbose"
        )
        protocols = [line.split()[-1] for line in described.splitlines() if line.startswith(GROUP)]
        assert len(protocols) == 7 and len(set(protocols)) == 2, described

        group.remove(new)
        group.wait_until_shared()
        assert group.listed_type() is ConsumerGroupType.CLASSIC
        group.produce_and_receive()
