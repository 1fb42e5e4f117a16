"""KAFKA_ variables name configs as the apache/kafka image does."""

from __future__ import annotations

import pytest

from tidelog.broker.config.environment import config_key, configs_from_environment


@pytest.mark.parametrize(
    ("variable", "key"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", "listener.security.protocol.map"),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_A___B", "a-b"),
        ("KAFKA_A____B", "a-.b"),
        ("KAFKA_log_dirs", "log.dirs"),
        ("KAFKA_", None),
        ("KAFKAX", None),
        ("NODE_ID", None),
        ("KAFKA_HEAP_OPTS", None),
        ("KAFKA_LOG4J_ROOT_LOGLEVEL", None),
        ("KAFKA_VERSION", None),
    ],
)
def test_an_environment_variable_is_converted_to_a_key(variable: str, key: str | None) -> None:
    assert config_key(variable) == key


def test_only_environment_variables_of_configs_are_read() -> None:
    environment = {"KAFKA_NODE_ID": "3", "PATH": "/bin", "KAFKA_OPTS": "-X", "KAFKA_LOG_DIRS": "/a b"}
    assert configs_from_environment(environment) == {"node.id": "3", "log.dirs": "/a b"}
