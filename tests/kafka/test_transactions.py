"""Kafka's own transactional copier, and its tool for hanging transactions (transaction.version 2)."""

from __future__ import annotations

import json

from confluent_kafka import Producer

from tests.kafka.tools import KafkaTools

MESSAGES = 600


def create(tools: KafkaTools, topic: str) -> None:
    tools.run("kafka-topics", "--create", "--topic", topic, "--partitions", "1", "--replication-factor", "3")


def consume_committed(tools: KafkaTools, topic: str, count: int) -> list[str]:
    """Return the lines that a read-committed consumer prints within some seconds, at most `count` + 1.

    If there are no more records, the consumer prints a message about this among them.
    """
    printed = tools.call(
        "kafka-console-consumer",
        "--topic", topic,
        "--from-beginning",
        "--isolation-level", "read_committed",
        "--max-messages", str(count + 1),
        "--timeout-ms", "5000",
    ).stdout  # fmt: skip
    return [line for line in printed.splitlines() if line.startswith("line-")]


def test_the_transactional_copier_copies_each_message_once_with_random_aborts(
    tools: KafkaTools,
) -> None:
    create(tools, "copied-from")
    create(tools, "copied-to")
    lines = [f"line-{number}" for number in range(MESSAGES)]
    tools.run("kafka-console-producer", "--topic", "copied-from", stdin="\n".join(lines) + "\n")
    copied = tools.run(
        "kafka-transactional-message-copier",
        "--input-topic", "copied-from",
        "--input-partition", "0",
        "--output-topic", "copied-to",
        "--consumer-group", "copier",
        "--transactional-id", "copier",
        "--transaction-size", "50",
        "--max-messages", str(MESSAGES),
        "--enable-random-aborts",
        "--group-mode",
    )  # fmt: skip
    assert json.loads(copied.strip().splitlines()[-1])["remaining"] == 0
    assert consume_committed(tools, "copied-to", MESSAGES) == lines
    groups = tools.run("kafka-consumer-groups", "--describe", "--group", "copier", "--offsets")
    (row,) = [line.split() for line in groups.splitlines() if "copied-from" in line]
    assert (row[3], row[5]) == (str(MESSAGES), "0"), "committed up to the end, no lag"


def test_a_hanging_transaction_is_found_and_aborted(tools: KafkaTools) -> None:
    create(tools, "hung")
    producer = Producer({"bootstrap.servers": tools.bootstrap_servers, "transactional.id": "hanging"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("hung", b"line-never")
    producer.flush(30)
    tools.run("kafka-console-producer", "--topic", "hung", stdin="line-held-back\n")
    assert consume_committed(tools, "hung", 1) == []
    where = ("--topic", "hung", "--partition", "0")
    described = tools.run("kafka-transactions", "describe-producers", *where)
    rows = [line.split() for line in described.splitlines()[1:]]
    (start_offset,) = [row[5] for row in rows if row[5] != "None"]
    tools.run("kafka-transactions", "abort", *where, "--start-offset", start_offset)
    assert consume_committed(tools, "hung", 1) == ["line-held-back"]
