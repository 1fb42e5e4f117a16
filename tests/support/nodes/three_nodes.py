"""A cluster of three nodes in this process, observed with librdkafka and in their images."""

from __future__ import annotations

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.waiting import TIMEOUT_S, wait_for_value, wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.cluster.image import BrokerImage, PartitionImage
from tidelog.testing.embedded import EmbeddedCluster


class ThreeNodes:
    """The operations of failover tests on a cluster of three nodes."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster = cluster

    @property
    def servers(self) -> str:
        """Return the addresses of all nodes."""
        return self.cluster.bootstrap_servers

    def admin(self, node_id: int | None = None) -> AdminClient:
        """Return librdkafka's admin client, with one node or all as bootstrap servers."""
        servers = self.servers if node_id is None else self.servers.split(",")[node_id - 1]
        return AdminClient({"bootstrap.servers": servers, "log_level": 0})

    def brokers(self) -> set[int]:
        """Return the brokers that are in the metadata of every running node."""
        broker_ids = [
            {broker.id for broker in self.cluster.run(_brokers, node_id)} for node_id in self.cluster.nodes
        ]
        return set.intersection(*broker_ids) if broker_ids else set()

    def create_topic(self, name: str, partitions: int = 3, **configs: str) -> None:
        """Create a topic with three replicas, and wait until all are in sync."""
        topic = NewTopic(
            name, partitions, 3, config={key.replace("_", "."): text for key, text in configs.items()}
        )
        admin = self.admin()
        for future in admin.create_topics([topic]).values():
            future.result(TIMEOUT_S)
        self.wait_until_whole(name)

    def partition(self, topic: str, index: int = 0, node_id: int | None = None) -> PartitionImage:
        """Return the partition in a node's image."""
        return self.cluster.run(
            lambda node: node.services.image().topics_by_name[topic].partitions[index], node_id
        )

    def controller(self) -> int | None:
        """Return the active controller in the metadata of the nodes."""
        controllers = {
            self.cluster.run(lambda node: node.services.store.leader, each) for each in self.cluster.nodes
        }
        return controllers.pop() if len(controllers) == 1 else None

    def wait_for_controller(self) -> int:
        """Wait until the metadata of all nodes has the same active controller, and return it."""
        return wait_for_value(self.controller)

    def wait_until_whole(self, topic: str) -> None:
        """Wait until all replicas of the topic are in sync in the metadata of every running node."""
        wait_until(lambda: all(self._is_whole(topic, node_id) for node_id in self.cluster.nodes))

    def wait_for_leader_other_than(self, topic: str, node_id: int, index: int = 0) -> int:
        """Wait for another leader and return it."""
        wait_until(lambda: self.partition(topic, index).leader not in (node_id, -1))
        return self.partition(topic, index).leader

    def produce(self, topic: str, values: list[str], partitions: int = 3) -> None:
        """Produce with an idempotent producer, acks=all; every record must be acknowledged."""
        producer = Producer(
            {"bootstrap.servers": self.servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )
        failed: list[str] = []
        for number, value in enumerate(values):
            producer.produce(
                topic,
                value,
                partition=number % partitions,
                on_delivery=lambda error, _: failed.append(str(error)) if error else None,
            )
        assert producer.flush(TIMEOUT_S) == 0
        assert failed == []

    def read(self, topic: str, count: int, partitions: int = 3) -> list[str]:
        """Return the first `count` values of the topic, read by a new consumer."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "unused",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        try:
            return read_values(consumer, count)
        finally:
            consumer.close()

    def _is_whole(self, topic: str, node_id: int) -> bool:
        topic_image = self.cluster.run(lambda node: node.services.image().topics_by_name.get(topic), node_id)
        return topic_image is not None and all(
            partition.leader >= 0 and set(partition.isr) == set(partition.replicas)
            for partition in topic_image.partitions.values()
        )


def read_values(consumer: Consumer, count: int) -> list[str]:
    """Return the next `count` values of the consumer."""
    values: list[str] = []
    while len(values) < count:
        messages = consumer.consume(count - len(values), TIMEOUT_S)
        assert messages, f"{len(values)} of {count} records were read"
        values += [message.value().decode() for message in messages if message.error() is None]
    return values


def _brokers(node: BrokerNode) -> list[BrokerImage]:
    return [broker for broker in node.services.image().brokers.values() if not broker.fenced]
