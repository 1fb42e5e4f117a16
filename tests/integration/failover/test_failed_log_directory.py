"""A running node loses one of its two log directories: its other partitions stay, leaders change."""

from __future__ import annotations

from tests.support.nodes.three_nodes import ThreeNodes
from tests.support.waiting import wait_until
from tidelog.testing.embedded import EmbeddedCluster

PARTITIONS = 8


def test_partitions_of_a_failed_directory_get_new_leaders_without_loss() -> None:
    config = {
        "replica.high.watermark.checkpoint.interval.ms": "200",
        "log.retention.check.interval.ms": "500",
    }
    with EmbeddedCluster(nodes=3, directories=2, config=config) as cluster:
        nodes = ThreeNodes(cluster)
        wait_until(lambda: nodes.brokers() == {1, 2, 3})
        nodes.create_topic("tides", PARTITIONS)
        values = [f"value {number}" for number in range(400)]
        nodes.produce("tides", values, PARTITIONS)
        # The metadata log is in the first directory, without which a node cannot run.
        lost = cluster.data_dir / "node-2" / "data-2"
        indexes = [index for index in range(PARTITIONS) if (lost / f"tides-{index}").is_dir()]
        assert 0 < len(indexes) < PARTITIONS
        # In one step: during a deletion file by file, new files would be created.
        lost.rename(lost.with_name("taken-away"))
        lost.write_text("not a directory any more")
        wait_until(lambda: all(2 not in nodes.partition("tides", index).isr for index in indexes))
        assert all(nodes.partition("tides", index).leader in (1, 3) for index in indexes)
        others = [index for index in range(PARTITIONS) if index not in indexes]
        assert all(2 in nodes.partition("tides", index).isr for index in others)
        more = [f"more {number}" for number in range(400)]
        nodes.produce("tides", more, PARTITIONS)
        assert sorted(nodes.read("tides", 800, PARTITIONS)) == sorted(values + more)
