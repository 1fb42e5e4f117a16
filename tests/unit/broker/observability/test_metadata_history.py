from __future__ import annotations

import logging

import pytest

from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

LOGGER = "tidelog.broker.observability.metadata_history"


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def test_the_log_has_the_history_of_topics_leaders_and_brokers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, LOGGER)
    with EmbeddedCluster(nodes=3) as cluster:
        cluster.create_topics({"tides": 1}, {"retention.ms": "60000"})
        cluster.stop_node(3)
        wait_until(lambda: any("now 1,2" in line for line in lines(caplog)))
        cluster.start_node(3)
        wait_until(lambda: any("now 1,2,3" in line for line in lines(caplog)))
    history = lines(caplog)
    assert "Topic tides was created: 1 partition, replication factor 3" in history
    assert "Configs of topic tides were changed: retention.ms=60000" in history
    assert "Broker 3 is unfenced: it serves clients" in history
    assert any(line.startswith("Broker 3 is fenced") for line in history)
    assert "Partition tides-0: in-sync replicas 1,2,3, now 1,2" in history
    assert "Partition tides-0: in-sync replicas 1,2, now 1,2,3" in history
    # No line has the id of a topic.
    assert not any("-" in word and len(word) > 30 for line in history for word in line.split())
