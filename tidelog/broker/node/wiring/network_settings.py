"""The configuration of the network layer, from the node's configuration."""

from __future__ import annotations

from tidelog.broker.config.listener_tls import listener_principal_mapper, listener_tls_settings, uses_tls
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.projection import projection
from tidelog.broker.config.sasl_config import SASL_PROTOCOLS, sasl_listener_config
from tidelog.broker.network.config import UNLIMITED, ListenerConfig, NetworkConfig, parse_address_limits
from tidelog.security.tls.server import TlsServer, load_server_identity


def listener_config(config: BrokerConfig, listener: Listener) -> ListenerConfig:
    """Return the address, the connection limit and the TLS identity of one listener.

    I/O: reads key stores. Errors: ConfigError if a key store cannot be used.
    """
    return ListenerConfig(
        name=listener.name,
        host=listener.host,
        port=listener.port,
        max_connections=listener_limit(config, listener.name),
        max_connection_creation_rate=listener_creation_rate(config, listener.name),
        tls=_tls_server(config, listener) if uses_tls(listener) else None,
        unauthenticated_frame_bytes_max=sasl_listener_config(config, listener.name).max_receive_bytes
        if listener.security_protocol in SASL_PROTOCOLS
        else None,
    )


def _tls_server(config: BrokerConfig, listener: Listener) -> TlsServer:
    identity = load_server_identity(listener_tls_settings(config, listener))
    return TlsServer(identity, listener_principal_mapper(config, listener))


def listener_limit(config: BrokerConfig, listener: str) -> int:
    """Return listener.name.<listener>.max.connections."""
    return int(config.explicit.get(f"listener.name.{listener.lower()}.max.connections", UNLIMITED))


def listener_creation_rate(config: BrokerConfig, listener: str) -> int:
    """Return listener.name.<listener>.max.connection.creation.rate."""
    key = f"listener.name.{listener.lower()}.max.connection.creation.rate"
    return int(config.explicit.get(key, UNLIMITED))


def network_config(config: BrokerConfig) -> NetworkConfig:
    """Return the limits that all listeners share. Raise ConfigError if a host cannot be resolved."""
    overrides = parse_address_limits(config.max_connections_per_ip_overrides)
    return projection(config, NetworkConfig, max_connections_per_ip_overrides=overrides)
