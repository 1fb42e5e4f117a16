"""The settings of tiered storage: defaults, prefixes, and refused values."""

from __future__ import annotations

import pytest

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.tier.settings import (
    log_manager_settings,
    metadata_manager_values,
    storage_manager_values,
)

ON = {"node.id": "1", "remote.log.storage.system.enable": "true"}


def config(**values: str) -> BrokerConfig:
    return BrokerConfig(ON | {key.replace("__", "-").replace("_", "."): text for key, text in values.items()})


def test_the_settings_of_the_log_manager_are_kafkas_by_default() -> None:
    settings = log_manager_settings(config())
    assert settings.remote_log_manager_copier_thread_pool_size == 10
    assert settings.remote_log_manager_follower_thread_pool_size == 2
    assert settings.remote_log_manager_task_interval_ms == 30_000
    assert settings.remote_log_reader_max_pending_tasks == 100


@pytest.mark.parametrize(
    ("configs", "threads"),
    [
        ({"remote.log.manager.thread.pool.size": "7"}, 7),
        ({"remote.log.manager.follower.thread.pool.size": "5"}, 5),
        (
            {
                "remote.log.manager.thread.pool.size": "7",
                "remote.log.manager.follower.thread.pool.size": "5",
            },
            5,
        ),
    ],
)
def test_kip_1157_the_older_key_of_the_follower_pool_is_the_fallback(
    configs: dict[str, str], threads: int
) -> None:
    settings = log_manager_settings(BrokerConfig({**ON, **configs}))
    assert settings.remote_log_manager_follower_thread_pool_size == threads


def test_prefixed_keys_are_passed_to_the_managers() -> None:
    configs = {
        "rsm.config.storage.backend.class": "s3",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
    }
    node_config = BrokerConfig({**ON, **configs})
    assert storage_manager_values(node_config) == {"storage.backend.class": "s3"}
    assert metadata_manager_values(node_config) == {"remote.log.metadata.topic.num.partitions": "5"}
    assert not node_config.unknown_keys


def test_prefixes_are_configurable() -> None:
    configs = {"remote.log.storage.manager.impl.prefix": "mine.", "mine.chunk.size": "7"}
    assert storage_manager_values(BrokerConfig({**ON, **configs})) == {"chunk.size": "7"}


@pytest.mark.parametrize("name", ["bundled", "io.aiven.kafka.tieredstorage.RemoteStorageManager"])
def test_kafkas_class_names_of_the_default_manager_are_accepted(name: str) -> None:
    assert config(remote_log_storage_manager_class_name=name).remote_log_storage_manager_class_name == name


@pytest.mark.parametrize(
    "key", ["remote.log.storage.manager.class.name", "remote.log.metadata.manager.class.name"]
)
def test_unknown_classes_are_refused_while_tiering_is_enabled(key: str) -> None:
    with pytest.raises(ConfigError, match=f"{key}=com.example.Manager"):
        BrokerConfig({**ON, key: "com.example.Manager"})
    BrokerConfig({"node.id": "1", key: "com.example.Manager"})


def test_the_listener_of_the_metadata_manager_must_be_advertised() -> None:
    assert config().metadata_listener == "PLAINTEXT"
    with pytest.raises(ConfigError, match=r"remote\.log\.metadata\.manager\.listener\.name=INSIDE"):
        config(remote_log_metadata_manager_listener_name="inside")
    listeners = {"listeners": "INSIDE://h:1,OUTSIDE://h:2", "inter.broker.listener.name": "OUTSIDE"}
    protocols = {"listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT"}
    chosen = {"remote.log.metadata.manager.listener.name": "inside"}
    assert BrokerConfig({**ON, **listeners, **protocols, **chosen}).metadata_listener == "INSIDE"
    assert BrokerConfig({**ON, **listeners, **protocols}).metadata_listener == "OUTSIDE"
