"""Transactions between brokers of both kinds: one coordinates, both lead partitions of the transactions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.kafka.mixed_clients import MixedClients
from tests.kafka.tools import KafkaTools
from tests.kafka.two_brokers import KAFKAS, ONE_COORDINATOR, OURS, run_two_brokers
from tests.reference_software.kafka_programs import WITHIN_S

MESSAGES = 300


def write_transactions(clients: MixedClients, servers: str) -> None:
    """Write a committed and an aborted transaction, each to partitions of both brokers."""
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "tides", "log_level": 0})
    producer.init_transactions(WITHIN_S)
    for outcome in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for number in range(50):
            producer.produce("tides", f"{outcome.__name__} {number}", partition=number % 2)
        producer.flush(WITHIN_S)
        outcome(WITHIN_S)
    # The default of librdkafka is read_committed.
    assert sorted(clients.read("tides", 50, 2)) == sorted(f"commit_transaction {n}" for n in range(50))


def copy(clients: MixedClients, tools: KafkaTools) -> None:
    """Run Kafka's own copier, whose transactions contain offsets of a group; transaction.version 2."""
    clients.produce("copied-from", [str(number) for number in range(MESSAGES)], 1)
    tools.run(
        "kafka-transactional-message-copier",
        "--input-topic", "copied-from",
        "--input-partition", "0",
        "--output-topic", "copied-to",
        "--consumer-group", "copier",
        "--transactional-id", "copier",
        "--transaction-size", "25",
        "--max-messages", str(MESSAGES),
        "--enable-random-aborts",
        "--group-mode",
    )  # fmt: skip
    copied = clients.read("copied-to", MESSAGES, 2)
    assert sorted(copied, key=int) == [str(number) for number in range(MESSAGES)]
    assert clients.committed_offsets("copier", "copied-from", 1) == [MESSAGES]


@pytest.mark.parametrize(
    ("coordinator", "group_coordinator"), [(KAFKAS, OURS), (OURS, KAFKAS)], ids=["kafkas", "ours"]
)
def test_one_implementation_coordinates_transactions_on_brokers_of_both(
    tmp_path: Path, coordinator: int, group_coordinator: int
) -> None:
    with run_two_brokers(tmp_path, ONE_COORDINATOR) as (cluster, clients, _, _):
        clients.create_topic("__consumer_offsets", [[group_coordinator]], cleanup_policy="compact")
        clients.create_topic("__transaction_state", [[coordinator]], cleanup_policy="compact")
        for topic in ("tides", "copied-to"):
            clients.create_topic(topic, [[OURS], [KAFKAS]])
        clients.create_topic("copied-from", [[OURS]])
        write_transactions(clients, cluster.bootstrap_servers)
        copy(clients, KafkaTools(Path(os.environ["TIDELOG_KAFKA_JARS"]), cluster.bootstrap_servers))
