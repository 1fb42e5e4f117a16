"""What the settings say of sockets."""

from __future__ import annotations

from dataclasses import fields

from broker.config import BrokerConfig
from broker.listeners import Listener
from broker.network.config import UNLIMITED, ListenerConfig, NetworkConfig, parse_address_limits
from storage.config_definition import ConfigError


def listener_config(config: BrokerConfig, listener: Listener) -> ListenerConfig:
    """One listener's address and limit."""
    key = f"listener.name.{listener.name.lower()}.max.connections"
    text = config.explicit.get(key, str(UNLIMITED))
    if not text.isdecimal():
        raise ConfigError(key, text, "allowed is a number from 0 on")
    return ListenerConfig(
        name=listener.name, host=listener.host, port=listener.port, max_connections=int(text)
    )


def network_config(config: BrokerConfig) -> NetworkConfig:
    """The limits that all listeners share."""
    values = {field.name: getattr(config, field.name) for field in fields(NetworkConfig)}
    values["max_connections_per_ip_overrides"] = parse_address_limits(config.max_connections_per_ip_overrides)
    return NetworkConfig(**values)
