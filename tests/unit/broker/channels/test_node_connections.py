from __future__ import annotations

import pytest

from tidelog.broker.channels.node_connections import node_connection_settings, source_address
from tidelog.broker.channels.peer_security import PeerSecurity
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
def test_connections_start_from_the_nodes_loopback_address(listeners: str, source: str | None) -> None:
    config = BrokerConfig({"node.id": "1", "listeners": listeners})
    assert source_address(config) == source
    settings = node_connection_settings(config, security=PeerSecurity(None, None), request_timeout_ms=1)
    assert settings.local_host == source


def test_only_listeners_between_nodes_count() -> None:
    config = BrokerConfig(
        {
            "node.id": "1",
            "listeners": "INSIDE://127.0.0.4:9092,PLAINTEXT://127.0.0.5:9093",
            "listener.security.protocol.map": "INSIDE:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }
    )
    assert source_address(config) == "127.0.0.5"
