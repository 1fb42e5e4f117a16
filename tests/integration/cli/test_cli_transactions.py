"""`tidelog transactions` with a hanging transaction, which no coordinator will end."""

from __future__ import annotations

import json
from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.cli import tidelog_failure, tidelog_output
from tests.support.foreign_clients.partition_writer import PartitionWriter
from tests.support.waiting import TIMEOUT_S
from tidelog.testing.embedded import EmbeddedCluster

PRODUCER_ID = 1_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        for future in admin.create_topics([NewTopic("tides", 2, 1)]).values():
            future.result(TIMEOUT_S)
        yield running


def test_a_hanging_transaction_is_found_and_aborted(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    writer = PartitionWriter(cluster, "tides")
    writer.records(b"plain")
    writer.records(b"hanging", producer_id=PRODUCER_ID)
    find = ("transactions", "find-hanging", "--max-timeout", "0")
    [transaction] = json.loads(tidelog_output(*find, "--json", bootstrap=servers))
    assert (transaction["topic"], transaction["partition"]) == ("tides", 0)
    assert (transaction["producer_id"], transaction["start_offset"]) == (PRODUCER_ID, 1)
    assert json.loads(tidelog_output(*find, "--broker", "9", "--json", bootstrap=servers)) == []
    assert json.loads(tidelog_output("transactions", "find-hanging", "--json", bootstrap=servers)) == [], (
        "it is not open for longer than any transaction may be"
    )
    heading, row = tidelog_output(*find, "--topic", "tides", bootstrap=servers).splitlines()
    assert heading.split()[:3] == ["TOPIC", "PARTITION", "PRODUCER"]
    assert row.split()[:3] == ["tides", "0", str(PRODUCER_ID)]
    place = ("tides", "-p", "0")
    ended = tidelog_output("transactions", "abort", *place, "--start-offset", "1", bootstrap=servers)
    assert ended == "aborted the transaction in tides-0\n"
    assert json.loads(tidelog_output(*find, "--json", bootstrap=servers)) == []
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "unused", "isolation.level": "read_committed"}
    )
    low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition("tides", 0), timeout=30)
    consumer.close()
    assert (low, high) == (0, 3)


def test_unknown_values_are_reported_as_unknown(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    assert tidelog_output("transactions", "list", "--json", bootstrap=servers) == "[]\n"
    line = tidelog_failure("transactions", "list", "--state", "Sleeping", bootstrap=servers)
    assert "Sleeping" in line
