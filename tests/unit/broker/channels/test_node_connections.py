from __future__ import annotations

import pytest

from tidelog.broker.channels.node_connections import node_connection_settings, source_address
from tidelog.broker.config.node_config import BrokerConfig


@pytest.mark.parametrize(
    ("listeners", "source"),
    [
        ("PLAINTEXT://127.0.0.3:9092", "127.0.0.3"),
        ("PLAINTEXT://127.0.0.1:9092", None),
        ("PLAINTEXT://:9092", None),
        ("PLAINTEXT://localhost:9092", None),
        ("PLAINTEXT://10.0.0.3:9092", None),
        ("PLAINTEXT://[::1]:9092", None),
    ],
)
def test_a_node_with_a_loopback_address_of_its_own_speaks_from_it(listeners: str, source: str | None) -> None:
    config = BrokerConfig({"node.id": "1", "listeners": listeners})
    assert source_address(config) == source
    settings = node_connection_settings(config, "PLAINTEXT", ssl=None, request_timeout_ms=1)
    assert settings.local_host == source


def test_only_listeners_for_other_nodes_count() -> None:
    config = BrokerConfig(
        {
            "node.id": "1",
            "listeners": "INSIDE://127.0.0.4:9092,PLAINTEXT://127.0.0.5:9093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    )
    assert source_address(config) == "127.0.0.5"
