"""Topics of Apache Kafka are mounted, and restored, from the bucket that Aiven's plugin filled.

Needs Aiven's plugin in TIDELOG_AIVEN_CLASSPATH.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from tests.kafka.kafka_tier import SMALL_SEGMENTS, TRANSACTIONS, KafkaTier, consume_all
from tests.support.cli import tidelog_output
from tests.support.tier.tiered_topics import TieredTopics
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

COMPRESSED = "lz4"
TOPICS = (COMPRESSED, TRANSACTIONS)


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaTier]:
    """Create topics of two leader epochs in an encrypted and compressed bucket."""
    new_tier = KafkaTier(tmp_path_factory.mktemp("tier"))
    try:
        new_tier.cluster.format(new_tier.node)
        for turn in range(2):
            new_tier.start()
            for topic in TOPICS if turn == 0 else ():
                new_tier.clients.create_topic(topic, [[1]], **SMALL_SEGMENTS)
            new_tier.write(COMPRESSED, 1500 * turn, 1500)
            new_tier.write_transactions(10 + 5 * turn)
            if turn == 0:
                new_tier.cluster.stop(new_tier.node)
        yield new_tier
    finally:
        new_tier.cluster.end()


def test_a_topic_of_a_running_apache_kafka_is_mounted_and_followed(tier: KafkaTier, tmp_path: Path) -> None:
    prefix = "rsm.config."
    store = {
        **tier.store,
        f"{prefix}storage.root": str(tmp_path),
        f"{prefix}mounts.kafka.storage.root": tier.store[f"{prefix}storage.root"],
        f"{prefix}mounts.kafka.key.prefix": tier.store[f"{prefix}key.prefix"],
    }
    options = chain.from_iterable(("-C", f"{key}={value}") for key, value in store.items())
    end = tier.wait_until_tiered(COMPRESSED).tiered_end
    with EmbeddedCluster(tiered=True, config=store) as cluster:
        servers = cluster.bootstrap_servers
        tidelog_output("tier", "mount", "kafka", COMPRESSED, "--execute", *options, bootstrap=servers)
        mounted = TieredTopics(cluster)
        assert mounted.offset(COMPRESSED, -1) == end
        tier.write(COMPRESSED, 0, 1500)
        new_end = tier.wait_until_tiered(COMPRESSED).tiered_end
        assert new_end > end
        wait_until(lambda: mounted.offset(COMPRESSED, -1) == new_end)
        expected = [row for row in tier.consume_all(COMPRESSED, "read_committed") if row[0] < new_end]
        assert consume_all(servers, COMPRESSED, "read_committed") == expected
    assert not any(tmp_path.rglob("*.rsm-manifest"))


def test_topics_of_apache_kafka_are_restored_from_its_bucket(tier: KafkaTier) -> None:
    ends = {topic: tier.wait_until_tiered(topic).tiered_end for topic in TOPICS}
    before = {
        (topic, isolation): tier.consume_all(topic, isolation)
        for topic in TOPICS
        for isolation in ("read_uncommitted", "read_committed")
    }
    tier.cluster.kill(tier.node)
    options = chain.from_iterable(
        ("-C", f"{key.removeprefix('rsm.config.')}={value}") for key, value in tier.store.items()
    )
    with EmbeddedCluster(tiered=True, config=tier.store) as cluster:
        servers = cluster.bootstrap_servers
        text = tidelog_output("tier", "restore", "--all", "--execute", "--json", *options, bootstrap=servers)
        documents = {each["topic"]: each for each in json.loads(text)}
        assert {topic: each["partitions"][0]["log_end_offset"] for topic, each in documents.items()} == ends
        for topic, isolation in before:
            (partition,) = documents[topic]["partitions"]
            undecided = [each["first_offset"] for each in partition["open_transactions"]]
            end = min([ends[topic], *(undecided if isolation == "read_committed" else ())])
            restored = [row for row in consume_all(servers, topic, isolation) if row[0] < ends[topic]]
            assert restored == [row for row in before[topic, isolation] if row[0] < end]
