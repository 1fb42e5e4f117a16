"""The load of the suite `share`: members of a share group at a broker of Tidelog."""

from __future__ import annotations

import os

import pytest
from confluent_kafka import Producer

from benchmarks.kafka.suites.share import METRICS, SETTINGS
from benchmarks.loads.share import share
from tidelog.testing.embedded import EmbeddedCluster

PARTITIONS = 3
RECORDS = 30


@pytest.mark.parametrize("members", [1, 2, 5])
def test_members_accept_all_records_of_a_topic(members: int) -> None:
    with EmbeddedCluster(config=SETTINGS) as cluster:
        cluster.create_topics({"shared": PARTITIONS})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("shared", b"record", partition=number % PARTITIONS)
        producer.flush(30)
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        figures = share(host, int(port), "shared", members, PARTITIONS, RECORDS, [os.getpid()])
    assert {metric.key for metric in METRICS} <= figures.keys()
    assert figures["acquired"] == RECORDS
