"""The settings of `tidelog cluster start --tiered` and EmbeddedCluster(tiered=True)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.cli.local.dev import DEV_SETTINGS
from tidelog.local_cluster.layout import new_layout
from tidelog.local_cluster.tiering import metadata_topic_settings, tiered_settings
from tidelog.remote.metadata.config import METADATA_TOPIC
from tidelog.testing.embedded import SINGLE_NODE_DEFAULTS, EmbeddedCluster


@pytest.mark.parametrize(("nodes", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_the_metadata_topic_has_a_replica_on_each_node(
    nodes: int, replicas: int, min_isr: int, tmp_path: Path
) -> None:
    settings = tiered_settings(tmp_path, nodes, {})
    prefix = "rlmm.config.remote.log.metadata.topic."
    assert settings[prefix + "replication.factor"] == str(replicas)
    assert settings[prefix + "min.isr"] == str(min_isr)
    config = BrokerConfig({"node.id": "1", **settings})
    assert config.remote_log_storage_system_enable
    assert not config.unknown_keys


def test_the_metadata_topic_of_a_development_broker_has_one_replica() -> None:
    for settings in (DEV_SETTINGS, SINGLE_NODE_DEFAULTS):
        assert settings.items() >= metadata_topic_settings(1).items()
        assert not BrokerConfig(settings).unknown_keys


@pytest.mark.parametrize("nodes", [1, 3])
def test_nodes_of_a_local_cluster_are_configured_with_the_replication_factor(
    nodes: int, tmp_path: Path
) -> None:
    layout = new_layout(tmp_path, nodes)
    assert layout.properties(layout.node(1)).items() >= metadata_topic_settings(nodes).items()


def test_a_single_broker_with_tiering_creates_its_metadata_topic(tmp_path: Path) -> None:
    config = {
        "remote.log.storage.system.enable": "true",
        "rsm.config.storage.backend.class": "filesystem",
        "rsm.config.storage.root": str(tmp_path),
    }
    with EmbeddedCluster(config=config) as cluster:

        def replicas() -> list[int]:
            topics = cluster.run(lambda node: node.services.image().topics_by_name)
            topic = topics.get(METADATA_TOPIC)
            return [] if topic is None else [len(each.replicas) for each in topic.partitions.values()]

        wait_until(lambda: replicas() == [1] * 5)


def test_objects_are_in_a_directory_next_to_the_nodes(tmp_path: Path) -> None:
    settings = tiered_settings(tmp_path, 1, {"log.retention.check.interval.ms": "7"})
    assert settings["rsm.config.storage.root"] == str(tmp_path / "tier")
    assert (tmp_path / "tier").is_dir()
    assert settings["log.retention.check.interval.ms"] == "7"


def test_a_configured_store_is_used(tmp_path: Path) -> None:
    settings = tiered_settings(tmp_path, 1, {"rsm.config.storage.backend.class": "s3"})
    assert settings["rsm.config.storage.backend.class"] == "s3"
    assert "rsm.config.storage.root" not in settings
    assert not (tmp_path / "tier").exists()
