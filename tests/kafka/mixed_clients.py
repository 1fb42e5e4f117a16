"""What tests of mixed clusters ask and do through librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    PartitionMetadata,
    ResourceType,
)

from tests.kafka.kafka_node import WITHIN_S, MixedCluster, Node
from tests.support.waiting import wait_until


class MixedClients:
    """One client for each question, so that nobody's earlier knowledge answers it."""

    def __init__(self, cluster: MixedCluster) -> None:
        self.cluster = cluster

    def admin(self, node: Node | None = None) -> AdminClient:
        """An admin client that knows one node at first, or all."""
        servers = self.cluster.bootstrap_servers if node is None else node.address
        return AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def wait_for_brokers(self, *numbers: int) -> None:
        """Wait until every running broker tells of exactly these."""
        self._everywhere(lambda admin: set(admin.list_topics(timeout=10).brokers) == set(numbers))

    def create_topic(self, name: str, assignment: list[list[int]], **configs: str) -> None:
        """A topic with these replicas, all of which are in sync when this returns."""
        config = {key.replace("_", "."): text for key, text in configs.items()}
        topic = NewTopic(name, len(assignment), replica_assignment=assignment, config=config)
        self._ask(self.admin(), "create_topics", [topic])
        self.wait_until_whole(name)

    def delete_topic(self, name: str, node: Node) -> None:
        """Delete it, asking one node."""
        self._ask(self.admin(node), "delete_topics", [name])

    def set_config(self, kind: ResourceType, name: str, key: str, value: str, node: Node) -> None:
        """Change one setting of a topic or a broker, asking one node."""
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        self._ask(self.admin(node), "incremental_alter_configs", [resource])

    def config(self, kind: ResourceType, name: str, key: str, node: Node) -> str | None:
        """A setting, as one node tells it."""
        (entries,) = self._ask(self.admin(node), "describe_configs", [ConfigResource(kind, name)])
        value: str | None = entries[key].value
        return value

    def partition(self, topic: str, index: int = 0, node: Node | None = None) -> PartitionMetadata | None:
        """Leader, replicas and ISR; None when there is no such partition."""
        return self.admin(node).list_topics(topic, timeout=10).topics[topic].partitions.get(index)

    def leader(self, topic: str, index: int = 0) -> Node:
        """Who leads, once somebody does."""
        found: list[Node] = []

        def is_leader() -> bool:
            placed = self.partition(topic, index)
            found[:] = [] if placed is None or placed.leader < 0 else [self.cluster.nodes[placed.leader]]
            return bool(found)

        wait_until(is_leader, timeout_s=WITHIN_S)
        return found[0]

    def wait_for_leader_other_than(self, node: Node, topic: str, index: int = 0) -> None:
        """Wait until another node leads."""
        wait_until(lambda: self.leader(topic, index) is not node, timeout_s=WITHIN_S)

    def wait_until_whole(self, topic: str) -> None:
        """Wait until every running broker says that all replicas of the topic are in sync."""

        def is_whole(admin: AdminClient) -> bool:
            partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
            return bool(partitions) and all(
                placed.leader >= 0 and set(placed.isrs) == set(placed.replicas)
                for placed in partitions.values()
            )

        self._everywhere(is_whole)

    def produce(
        self, topic: str, values: Iterable[str], partitions: int = 1, *, acks: str = "all", first: int = 0
    ) -> None:
        """Write, idempotently when acks=all; every record must be acknowledged."""
        producer = Producer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "enable.idempotence": acks == "all",
                "acks": acks,
                "linger.ms": 5,
                "log_level": 0,
            }
        )
        failed: list[str] = []
        for number, value in enumerate(values):
            producer.produce(
                topic,
                value,
                partition=first + number % partitions,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        assert producer.flush(WITHIN_S) == 0
        assert failed == []

    def read(self, topic: str, count: int, partitions: int = 1) -> list[str]:
        """The first `count` values of the topic."""
        consumer = self._consumer("unused")
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        return self._consume(consumer, count)

    def read_as_group(self, group: str, topic: str, count: int, *, protocol: str = "classic") -> list[str]:
        """The next `count` values for a group, which are then committed."""
        consumer = self._consumer(group, protocol)
        consumer.subscribe([topic])
        return self._consume(consumer, count, commit=True)

    def committed(self, group: str, topic: str, partitions: int) -> list[int]:
        """The group's offsets."""
        consumer = self._consumer(group)
        try:
            asked = [TopicPartition(topic, index) for index in range(partitions)]
            return [each.offset for each in consumer.committed(asked, WITHIN_S)]
        finally:
            consumer.close()

    @staticmethod
    def _ask(admin: AdminClient, method: str, asked: list[Any]) -> list[Any]:
        """The results; the client must live until they are there."""
        futures = getattr(admin, method)(asked)
        return [future.result(WITHIN_S) for future in futures.values()]

    def _consumer(self, group: str, protocol: str = "classic") -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap_servers,
                "group.id": group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )

    def _consume(self, consumer: Consumer, count: int, *, commit: bool = False) -> list[str]:
        values: list[str] = []
        try:
            while len(values) < count:
                found = consumer.consume(count - len(values), WITHIN_S)
                assert found, f"{len(values)} of {count} records were read"
                values += [message.value().decode() for message in found if message.error() is None]
            if commit:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values

    def _everywhere(self, is_so: Callable[[AdminClient], bool]) -> None:
        for node in self.cluster.brokers():
            admin = self.admin(node)

            def asked(admin: AdminClient = admin) -> bool:
                try:
                    return is_so(admin)
                except KafkaException:
                    return False

            wait_until(asked, timeout_s=WITHIN_S)
