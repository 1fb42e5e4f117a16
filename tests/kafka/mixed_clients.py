"""The operations of mixed clusters' tests that use librdkafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
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

from tests.kafka.kafka_node import MixedCluster, Node
from tests.reference_software.kafka_programs import WITHIN_S
from tests.support.waiting import wait_until


class MixedClients:
    """Creates a new client for each operation, so that no cached metadata is used."""

    def __init__(self, cluster: MixedCluster, options: Mapping[str, str] | None = None) -> None:
        """Create the clients; `options` of librdkafka are those for the listeners' security."""
        self.cluster = cluster
        self._options = dict(options or {})

    def admin(self, node: Node | None = None) -> AdminClient:
        """Create an admin client that knows one node at first, or all."""
        servers = self.cluster.bootstrap_servers if node is None else node.address
        return AdminClient({**self._options, "bootstrap.servers": servers, "log_level": 0})

    def wait_for_brokers(self, *numbers: int) -> None:
        """Wait until every running broker reports exactly these brokers."""
        self._wait_until_accepted(lambda admin: set(admin.list_topics(timeout=10).brokers) == set(numbers))

    def create_topic(self, name: str, assignment: list[list[int]], **configs: str) -> None:
        """Create a topic with these replicas, and wait until all of them are in sync."""
        config = {key.replace("_", "."): text for key, text in configs.items()}
        topic = NewTopic(name, len(assignment), replica_assignment=assignment, config=config)
        self._call(self.admin(), "create_topics", [topic])
        self.wait_until_whole(name)

    def delete_topic(self, name: str, node: Node) -> None:
        """Delete the topic through one node."""
        self._call(self.admin(node), "delete_topics", [name])

    def set_config(self, kind: ResourceType, name: str, key: str, value: str, node: Node) -> None:
        """Change one config of a topic or a broker through one node."""
        entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(kind, name, incremental_configs=[entry])
        self._call(self.admin(node), "incremental_alter_configs", [resource])

    def config(self, kind: ResourceType, name: str, key: str, node: Node) -> str | None:
        """Return a config as reported by one node."""
        (entries,) = self._call(self.admin(node), "describe_configs", [ConfigResource(kind, name)])
        value: str | None = entries[key].value
        return value

    def partition(self, topic: str, index: int = 0, node: Node | None = None) -> PartitionMetadata | None:
        """Return leader, replicas and ISR, or None if the partition does not exist."""
        return self.admin(node).list_topics(topic, timeout=10).topics[topic].partitions.get(index)

    def leader(self, topic: str, index: int = 0) -> Node:
        """Return the leader, as soon as there is one."""
        leader_nodes: list[Node] = []

        def is_leader() -> bool:
            partition = self.partition(topic, index)
            leader_nodes[:] = (
                [] if partition is None or partition.leader < 0 else [self.cluster.nodes[partition.leader]]
            )
            return bool(leader_nodes)

        wait_until(is_leader, timeout_s=WITHIN_S)
        return leader_nodes[0]

    def wait_for_leader_other_than(self, node: Node, topic: str, index: int = 0) -> None:
        """Wait until another node is the leader."""
        wait_until(lambda: self.leader(topic, index) is not node, timeout_s=WITHIN_S)

    def wait_until_whole(self, topic: str) -> None:
        """Wait until every running broker reports that all replicas of the topic are in sync."""

        def is_whole(admin: AdminClient) -> bool:
            partitions = admin.list_topics(topic, timeout=10).topics[topic].partitions
            return bool(partitions) and all(
                partition.leader >= 0 and set(partition.isrs) == set(partition.replicas)
                for partition in partitions.values()
            )

        self._wait_until_accepted(is_whole)

    def produce(
        self, topic: str, values: Iterable[str], partitions: int = 1, *, acks: str = "all", first: int = 0
    ) -> None:
        """Write values, idempotently if acks=all; every record must be acknowledged."""
        producer = Producer(
            {
                **self._options,
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
        """Return the first `count` values of the topic."""
        consumer = self._consumer("unused")
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        return self._consume(consumer, count)

    def read_as_group(self, group: str, topic: str, count: int, *, protocol: str = "classic") -> list[str]:
        """Return the next `count` values for a group, and commit them."""
        consumer = self._consumer(group, protocol)
        consumer.subscribe([topic])
        return self._consume(consumer, count, commit=True)

    def committed_offsets(self, group: str, topic: str, partitions: int) -> list[int]:
        """Return the group's offsets."""
        consumer = self._consumer(group)
        try:
            requested = [TopicPartition(topic, index) for index in range(partitions)]
            return [each.offset for each in consumer.committed(requested, WITHIN_S)]
        finally:
            consumer.close()

    @staticmethod
    def _call(admin: AdminClient, method: str, requested: list[Any]) -> list[Any]:
        """Return the results of a call; the client must exist until all are available."""
        futures = getattr(admin, method)(requested)
        return [future.result(WITHIN_S) for future in futures.values()]

    def _consumer(self, group: str, protocol: str = "classic") -> Consumer:
        return Consumer(
            {
                **self._options,
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
                messages = consumer.consume(count - len(values), WITHIN_S)
                assert messages, f"{len(values)} of {count} records were read"
                values += [message.value().decode() for message in messages if message.error() is None]
            if commit:
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values

    def _wait_until_accepted(self, is_so: Callable[[AdminClient], bool]) -> None:
        for node in self.cluster.brokers():
            admin = self.admin(node)

            def is_accepted(admin: AdminClient = admin) -> bool:
                try:
                    return is_so(admin)
                except KafkaException:
                    return False

            wait_until(is_accepted, timeout_s=WITHIN_S)
