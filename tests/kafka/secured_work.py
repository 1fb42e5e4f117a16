"""What nodes of both kinds do together in a secured cluster: replication, transactions, remote storage."""

from __future__ import annotations

import random

from confluent_kafka import Producer

from tests.kafka.secured_cluster import KAFKAS, OURS, SecuredCluster
from tests.reference_software.kafka_programs import WITHIN_S, Engine
from tests.support.waiting import wait_until

METADATA_TOPIC = "__remote_log_metadata"
TRANSACTIONS_TOPIC = "__transaction_state"


def replicate_in_both_directions(secured: SecuredCluster) -> None:
    """Write to a leader of each kind, and check that both replicas have the same bytes."""
    secured.clients.create_topic("replicated", [[OURS, KAFKAS], [KAFKAS, OURS]])
    values = [f"value {number}" for number in range(1000)]
    secured.clients.produce("replicated", values, 2)
    assert sorted(secured.clients.read("replicated", 1000, 2)) == sorted(values)
    for index in range(2):

        def replicas(index: int = index) -> set[bytes]:
            return {node.log_bytes(f"replicated-{index}") for node in secured.brokers}

        wait_until(lambda: len(replicas()) == 1, timeout_s=WITHIN_S)
        assert len(replicas().pop()) > 5_000


def create_transactional_topic(secured: SecuredCluster, topic: str, coordinator: int) -> None:
    """Create a topic with a leader of each kind, and make a broker the coordinator of transactions.

    The first call must be for our broker, the second one for Apache Kafka's.
    """
    clients = secured.clients
    clients.create_topic(topic, [[OURS, KAFKAS], [KAFKAS, OURS]])
    if coordinator == OURS:
        clients.create_topic(TRANSACTIONS_TOPIC, [[OURS, KAFKAS]], cleanup_policy="compact")
    else:
        stopped = secured.cluster.nodes[OURS]
        secured.cluster.stop(stopped)
        clients.wait_for_leader_other_than(stopped, TRANSACTIONS_TOPIC)
        secured.cluster.start(stopped)
        clients.wait_for_brokers(OURS, KAFKAS)
        clients.wait_until_whole(topic)
        clients.wait_until_whole(TRANSACTIONS_TOPIC)
    assert clients.leader(TRANSACTIONS_TOPIC).number == coordinator


def commit_and_abort(secured: SecuredCluster, producer: Producer, topic: str) -> None:
    """Commit a transaction, abort another one, and check that only the records of the first are read."""
    producer.init_transactions(WITHIN_S)
    for outcome in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(50):
            producer.produce(topic, f"{outcome.__name__} {number}", partition=number % 2)
        producer.flush(WITHIN_S)
        outcome(WITHIN_S)
    # The default of librdkafka is read_committed.
    committed = [f"commit_transaction {number}" for number in range(50)]
    assert sorted(secured.clients.read(topic, 50, 2)) == sorted(committed)


def tier_with_metadata_at_both_kinds(secured: SecuredCluster) -> None:
    """Tier segments while our broker, and then Apache Kafka's, is the leader of the metadata partition."""
    clients, ours = secured.clients, secured.node(Engine.TIDELOG)
    clients.create_topic(
        "tiered",
        [[OURS]],
        remote_storage_enable="true",
        segment_bytes=str(1 << 20),
        retention_ms="-1",
        local_retention_ms="-1",
        local_retention_bytes="1",
    )

    def write_and_tier(first: int) -> list[str]:
        values = [
            f"{number:06} {random.Random(number).randbytes(500).hex()}"
            for number in range(first, first + 3000)
        ]
        clients.produce("tiered", values)
        wait_until(lambda: len(list((ours.directory / "tiered-0").glob("*.log"))) == 1, timeout_s=WITHIN_S)
        return values

    written = write_and_tier(0)
    secured.cluster.stop(ours)
    clients.wait_for_leader_other_than(ours, METADATA_TOPIC)
    secured.cluster.start(ours)
    clients.wait_for_brokers(OURS, KAFKAS)
    clients.wait_until_whole(METADATA_TOPIC)
    assert clients.read("tiered", len(written)) == written
    # Apache Kafka's broker is the leader of the metadata partition now.
    written += write_and_tier(len(written))
    assert clients.read("tiered", len(written)) == written
    wait_until(
        lambda: len({node.log_bytes(f"{METADATA_TOPIC}-0") for node in secured.brokers}) == 1,
        timeout_s=WITHIN_S,
    )
