"""What the settings say of sockets."""

from __future__ import annotations

from dataclasses import fields

from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.config import UNLIMITED, ListenerConfig, NetworkConfig, parse_address_limits


def listener_config(config: BrokerConfig, listener: Listener) -> ListenerConfig:
    """One listener's address and limit."""
    return ListenerConfig(
        name=listener.name,
        host=listener.host,
        port=listener.port,
        max_connections=listener_limit(config, listener.name),
    )


def listener_limit(config: BrokerConfig, listener: str) -> int:
    """max.connections of one listener."""
    return int(config.explicit.get(f"listener.name.{listener.lower()}.max.connections", UNLIMITED))


def network_config(config: BrokerConfig) -> NetworkConfig:
    """The limits that all listeners share; ConfigError for a host whose address nobody knows."""
    values = {field.name: getattr(config, field.name) for field in fields(NetworkConfig)}
    values["max_connections_per_ip_overrides"] = parse_address_limits(config.max_connections_per_ip_overrides)
    return NetworkConfig(**values)
