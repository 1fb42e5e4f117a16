"""The coordinator of a transaction fails, and leaders of its partitions: all of it is read, or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.foreign_clients.transactional import TRANSACTIONAL, TransactionalProducer
from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import TIMEOUT_S, wait_until
from tidelog.broker.node.node import BrokerNode
from tidelog.cluster.topic_names import TRANSACTION_STATE_TOPIC

TRANSACTIONAL_ID = "tides"
TRANSACTION_TIMEOUT_MS = 30_000
PARTITIONS = 3


# kafka-python 3.0.12 drops a request that it could not send, and waits for its response forever.
@pytest.fixture(params=["confluent", "aiokafka", "tidelog"])
def producer(request: pytest.FixtureRequest, three_nodes: ThreeNodes) -> Iterator[TransactionalProducer]:
    """Return a producer of each client, one after the other, and a topic for it."""
    three_nodes.create_topic("tides", PARTITIONS)
    producer = TRANSACTIONAL[request.param](three_nodes.servers, TRANSACTIONAL_ID, TRANSACTION_TIMEOUT_MS)
    yield producer
    producer.close()


def coordinator(three_nodes: ThreeNodes) -> int:
    """Return the leader of the transactional id's partition, on which every running node agrees."""

    def leader(node: BrokerNode) -> int:
        services = node.services
        index = services.transactions.partition_for(TRANSACTIONAL_ID)
        return services.image().topics_by_name[TRANSACTION_STATE_TOPIC].partitions[index].leader

    coordinators: set[int] = set()

    def is_agreed() -> bool:
        coordinators.clear()
        coordinators.update(three_nodes.cluster.run(leader, node_id) for node_id in three_nodes.cluster.nodes)
        return len(coordinators) == 1 and coordinators <= set(three_nodes.cluster.nodes)

    wait_until(is_agreed, timeout_s=TIMEOUT_S)
    return coordinators.pop()


def transact(producer: TransactionalProducer, number: int, *, commits: bool) -> None:
    """Write one record to every partition."""
    producer.begin()
    for partition in range(PARTITIONS):
        producer.send("tides", [b"%d" % number], partition)
    if commits:
        producer.commit()
    else:
        producer.abort()


def committed_values(three_nodes: ThreeNodes) -> list[Counter[int]]:
    """Return the committed values of each partition up to its end; wait until no transaction is open."""
    consumer = Consumer(
        {
            "bootstrap.servers": three_nodes.servers,
            "group.id": "unused",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("tides", index, 0) for index in range(PARTITIONS)])
    values: list[Counter[int]] = [Counter() for _ in range(PARTITIONS)]
    finished_partitions: set[int] = set()
    try:
        while len(finished_partitions) < PARTITIONS:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            if message.error() is not None:
                finished_partitions.add(message.partition())
            else:
                values[message.partition()][int(message.value())] += 1
    finally:
        consumer.close()
    return values


def has_open_transaction(three_nodes: ThreeNodes) -> bool:
    """Return whether a partition's last stable offset is below its high watermark."""

    def is_open(node: BrokerNode) -> bool:
        logs = [
            partition.log
            for name, partition in node.services.replicas.partitions.items()
            if name.topic == "tides" and partition.is_leader
        ]
        return any(log.last_stable_offset < log.high_watermark for log in logs)

    return any(three_nodes.cluster.run(is_open, node_id) for node_id in three_nodes.cluster.nodes)


def test_transactions_stay_atomic_while_their_coordinator_is_killed(
    three_nodes: ThreeNodes, producer: TransactionalProducer
) -> None:
    transact(producer, 0, commits=True)
    expected = [0]
    number = 0
    for round_ in range(2):
        killed_node = coordinator(three_nodes)
        producer.begin()
        for partition in range(PARTITIONS):
            producer.send("tides", [b"%d" % (1000 + round_)], partition)
        three_nodes.cluster.kill_node(killed_node)
        producer.commit()
        expected.append(1000 + round_)
        for _ in range(6):
            number += 1
            transact(producer, number, commits=number % 2 == 0)
            expected += [number] if number % 2 == 0 else []
        three_nodes.cluster.start_node(killed_node)
        three_nodes.wait_until_whole("tides")
        three_nodes.wait_until_whole(TRANSACTION_STATE_TOPIC)
    wait_until(lambda: not has_open_transaction(three_nodes), timeout_s=TIMEOUT_S)
    assert committed_values(three_nodes) == [Counter(expected)] * PARTITIONS


def test_a_transaction_without_producer_and_coordinator_is_aborted_by_the_next_producer(
    three_nodes: ThreeNodes, producer: TransactionalProducer
) -> None:
    producer.begin()
    for partition in range(PARTITIONS):
        producer.send("tides", [b"1"], partition)
    three_nodes.cluster.kill_node(coordinator(three_nodes))
    next_producer = TRANSACTIONAL["confluent"](three_nodes.servers, TRANSACTIONAL_ID, TRANSACTION_TIMEOUT_MS)
    transact(next_producer, 2, commits=True)
    next_producer.close()
    wait_until(lambda: not has_open_transaction(three_nodes), timeout_s=TIMEOUT_S)
    assert committed_values(three_nodes) == [Counter([2])] * PARTITIONS
