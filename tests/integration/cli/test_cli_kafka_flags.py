"""The spellings of Kafka's tools for frequent options."""

from __future__ import annotations

from tests.support.cli import tidelog_output
from tidelog.testing.embedded import EmbeddedCluster


def test_the_options_of_kafkas_tools_are_accepted() -> None:
    with EmbeddedCluster() as cluster:
        server = ("--bootstrap-server", cluster.bootstrap_servers)
        created = tidelog_output(
            "topic", "create", "tides", "--partitions", "2", "--replication-factor", "1", *server
        )
        assert created == "created tides: 2 partitions, replication factor 1\n"
        tidelog_output("produce", "tides", *server, stdin="high\n")
        read = tidelog_output("consume", "tides", "--from-beginning", "--max-messages", "1", *server)
    assert read == "high\n"
