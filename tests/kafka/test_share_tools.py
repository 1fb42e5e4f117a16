"""Kafka's share consumers in a share group that a Tidelog cluster coordinates and serves."""

from __future__ import annotations

import json
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.kafka.tools import KafkaTools

RECORDS = 90


@pytest.fixture
def topic(tools: KafkaTools) -> str:
    """Create a topic of three partitions with the records r000, r001, ..."""
    name = f"shared-{uuid4().hex[:8]}"
    tools.run("kafka-topics", "--create", "--topic", name, "--partitions", "3", "--replication-factor", "3")
    lines = "".join(f"r{number:03}\n" for number in range(RECORDS))
    tools.run("kafka-console-producer", "--topic", name, stdin=lines)
    return name


def new_group(tools: KafkaTools) -> str:
    """Return the name of a group that starts at the beginning."""
    name = f"group-{uuid4().hex[:8]}"
    options = ("--alter", "--entity-type", "groups", "--entity-name", name)
    tools.run("kafka-configs", *options, "--add-config", "share.auto.offset.reset=earliest")
    return name


def consume_values(tools: KafkaTools, topic: str, group: str, count: int, *options: str) -> list[str]:
    """Return the values that one share consumer prints."""
    arguments = ("--topic", topic, "--group", group, "--max-messages", str(count), "--timeout-ms", "10000")
    # It also prints an error if fewer records arrive in time.
    lines = tools.call("kafka-console-share-consumer", *arguments, *options).stdout.splitlines()
    return [line for line in lines if re.fullmatch(r"r\d+", line)]


def test_two_share_consumers_get_each_record_once(tools: KafkaTools, topic: str) -> None:
    group = new_group(tools)
    received: Counter[str] = Counter()
    with ThreadPoolExecutor(2) as threads:
        for values in threads.map(lambda _: consume_values(tools, topic, group, RECORDS // 2), range(2)):
            received.update(values)
    # Records beyond the limit of a consumer are released when it ends.
    while len(received) < RECORDS and (
        values := consume_values(tools, topic, group, RECORDS - len(received))
    ):
        received.update(values)
    assert received == {f"r{number:03}": 1 for number in range(RECORDS)}


def test_rejected_records_are_not_delivered_again_and_released_ones_are(
    tools: KafkaTools, topic: str
) -> None:
    group = new_group(tools)
    rejected = set(consume_values(tools, topic, group, 30, "--reject"))
    released = set(consume_values(tools, topic, group, 30, "--release"))
    accepted: set[str] = set()
    while values := consume_values(tools, topic, group, RECORDS):
        accepted.update(values)
        if rejected | accepted == {f"r{number:03}" for number in range(RECORDS)}:
            break
    assert not rejected & accepted and released <= accepted
    assert len(rejected | accepted) == RECORDS


def test_the_verifiable_share_consumer_acknowledges_all_records(tools: KafkaTools, topic: str) -> None:
    arguments = ("--topic", topic, "--group-id", new_group(tools), "--max-messages", str(RECORDS))
    output = tools.run("kafka-verifiable-share-consumer", *arguments, "--acknowledgement-mode", "sync")
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    acknowledged = sum(each["count"] for each in events if each["name"] == "offsets_acknowledged")
    assert acknowledged >= RECORDS
