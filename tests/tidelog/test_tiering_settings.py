"""What `tidelog cluster start --tiered` and EmbeddedCluster(tiered=True) set."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config import BrokerConfig
from tidelog.local_cluster.tiering import tiered_settings


@pytest.mark.parametrize(("nodes", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_metadata_have_as_many_replicas_as_there_are_nodes(
    nodes: int, replicas: int, min_isr: int, tmp_path: Path
) -> None:
    settings = tiered_settings(tmp_path, nodes, {})
    prefix = "rlmm.config.remote.log.metadata.topic."
    assert settings[prefix + "replication.factor"] == str(replicas)
    assert settings[prefix + "min.isr"] == str(min_isr)
    config = BrokerConfig({"node.id": "1", **settings})
    assert config.remote_log_storage_system_enable
    assert not config.unknown_keys


def test_objects_are_in_a_directory_beside_the_nodes(tmp_path: Path) -> None:
    settings = tiered_settings(tmp_path, 1, {"log.retention.check.interval.ms": "7"})
    assert settings["rsm.config.storage.root"] == str(tmp_path / "tier")
    assert (tmp_path / "tier").is_dir()
    assert settings["log.retention.check.interval.ms"] == "7"


def test_a_store_of_ones_own_is_taken_as_it_is(tmp_path: Path) -> None:
    settings = tiered_settings(tmp_path, 1, {"rsm.config.storage.backend.class": "s3"})
    assert settings["rsm.config.storage.backend.class"] == "s3"
    assert "rsm.config.storage.root" not in settings
    assert not (tmp_path / "tier").exists()
