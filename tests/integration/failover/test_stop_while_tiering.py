"""A node that stops while it copies segments loses no record of their metadata."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.support.foreign_clients import CLIENTS, Message
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.tier.bucket_settings import storage_config
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

TOPICS = [f"tides-{number}" for number in range(6)]
SEGMENTS = 12
RECORD_BYTES = 600_000
"""Two such records do not fit into a segment."""


def test_no_record_of_remote_metadata_is_lost_when_a_node_stops_while_it_copies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "tier").mkdir()
    cluster = EmbeddedCluster(
        tiered=True,
        data_dir=tmp_path / "data",
        config={**storage_config(tmp_path / "tier"), "remote.log.manager.task.interval.ms": "50"},
    )
    cluster.start()
    topics = TieredTopics(cluster)
    for topic in TOPICS:
        topics.create(topic, {"remote.storage.enable": "false"})
    clients = ClientFactory(cluster.bootstrap_servers)
    for topic in TOPICS:
        clients.produce(CLIENTS["confluent"], topic, [Message(bytes(RECORD_BYTES))] * SEGMENTS)
    clients.close()
    for topic in TOPICS:
        topics.alter(topic, {"remote.storage.enable": "true"})
    wait_until(lambda: any(topics.border(topic).highest_remote > 0 for topic in TOPICS))
    with caplog.at_level(logging.INFO):
        cluster.stop()
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert lines == []
