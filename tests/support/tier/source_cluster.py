"""A cluster that fills a bucket, from which others restore."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import confluent_kafka

from tests.support.cli import tidelog_output
from tests.support.foreign_clients import CLIENTS
from tests.support.foreign_clients.client_factory import ClientFactory
from tests.support.foreign_clients.interface import Received
from tests.support.tier.bucket_settings import bucket_options, storage_config
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import TIMEOUT_S
from tidelog.testing.embedded import EmbeddedCluster

CONFLUENT = CLIENTS["confluent"]
COUNT = 4_000
AT_RECORD = 2_600
"""A record in the third segment; each has about 1,140 records."""


class SourceCluster:
    """A cluster with a tiered topic with transactions of 100 records and the broker's time."""

    def __init__(self, tier: Path) -> None:
        self.tier = tier
        self.cluster = EmbeddedCluster(tiered=True, config=storage_config(tier))
        self.cluster.start()
        self.topics = TieredTopics(self.cluster)
        self.at_ms: dict[str, int] = {}
        self.records: dict[str, list[Received]] = {}

    def fill(self, topic: str) -> list[Received]:
        """Create and fill a topic; return what is in remote storage, as clients read it."""
        self.topics.create(topic, {"message.timestamp.type": "LogAppendTime"})
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.servers, "transactional.id": topic, "log_level": 0}
        )
        producer.init_transactions(TIMEOUT_S)
        for first in range(0, COUNT, 100):
            producer.begin_transaction()
            for number in range(first, first + 100):
                producer.produce(topic, b"%d " % number + bytes(900))
            producer.flush(TIMEOUT_S)
            if first % 300 == 0:
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
        self.topics.wait_until_tiered(topic)
        records = self.read(topic, COUNT)
        self.at_ms[topic] = records[AT_RECORD].timestamp_ms or 0
        self.records[topic] = records
        return records

    def records_before(self, topic: str, end: int) -> list[Received]:
        """Return the records of a filled topic below an offset."""
        return [each for each in self.records[topic] if each.offset < end]

    @property
    def servers(self) -> str:
        return self.cluster.bootstrap_servers

    def read(self, topic: str, count: int, isolation: str = "read_uncommitted") -> list[Received]:
        """Return records without the name of their topic."""
        clients = ClientFactory(self.servers)
        records = clients.consume(CONFLUENT, topic, count, isolation=isolation)
        clients.close()
        return [replace(each, topic="") for each in records]

    def restore(self, topic: str, name: str, *arguments: str) -> dict[str, Any]:
        """Restore `topic` as of the time of AT_RECORD; return the partition in the report."""
        text = tidelog_output(
            *("tier", "restore", topic, "--at", str(self.at_ms[topic]), "--as", name, "--json", *arguments),
            *bucket_options(self.tier),
            bootstrap=self.servers,
        )
        (document,) = json.loads(text)
        (partition,) = document["partitions"]
        return {**partition, "restored": document["restored"]}

    def objects(self, part: str) -> dict[Path, int]:
        """Return the sizes of the objects whose path contains `part`."""
        sizes = {}
        # Unlike rglob, os.walk tolerates that directories are removed during the walk.
        for folder, _, names in os.walk(self.tier):
            for name in names:
                path = Path(folder, name)
                if part in str(path) and ".uploads" not in path.parts:
                    with suppress(FileNotFoundError):
                        sizes[path] = path.stat().st_size
        return sizes

    def has(self, topic: str) -> bool:
        return self.cluster.run(lambda node: topic in node.services.image().topics_by_name)

    def require_clean_bucket(self) -> None:
        """Require that fsck finds neither loss nor damage nor leftovers: its status is 0."""
        tidelog_output("tier", "fsck", "--all", *bucket_options(self.tier), bootstrap=self.servers)
