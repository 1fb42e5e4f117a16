"""The settings of this node's connections to the other nodes of its cluster."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from tidelog.broker.channels.peer_security import PeerSecurity
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.clients.transport.connecting import ConnectionSettings

_MAX_RESPONSE_BYTES: Final = 104_857_600
_DEFAULT_LOOPBACK: Final = ip_address("127.0.0.1")


def node_connection_settings(
    config: BrokerConfig,
    *,
    security: PeerSecurity,
    request_timeout_ms: int,
    max_response_bytes: int = _MAX_RESPONSE_BYTES,
    receive_buffer_bytes: int = -1,
) -> ConnectionSettings:
    """Return the settings of a connection to another node, with the security of its listener.

    `request_timeout_ms` is the longest time to wait for a
    response. A `receive_buffer_bytes` of -1 leaves the size of the socket buffer to the operating system.
    """
    return ConnectionSettings(
        client_id=str(config.node_id),
        max_response_bytes=max_response_bytes,
        request_timeout_ms=request_timeout_ms,
        setup_timeout_ms=config.socket_connection_setup_timeout_ms,
        receive_buffer_bytes=receive_buffer_bytes,
        ssl=security.ssl,
        local_host=source_address(config),
        authenticator=security.authenticator,
    )


def source_address(config: BrokerConfig) -> str | None:
    """Return the address to connect from; None if the operating system selects it.

    Several nodes on one machine may have different loopback addresses, such as 127.0.0.2. Each node then
    connects from its own address, so that the traffic between two nodes can be identified and blocked.
    """
    between_brokers = [one for one in config.broker_listeners if one.name == config.inter_broker_listener]
    hosts = (listener.host for listener in (*between_brokers, *config.controller_listeners))
    return next(filter(_is_own_loopback, hosts), None)


def _is_own_loopback(host: str) -> bool:
    """Return whether `host` is an IPv4 loopback address other than the usual 127.0.0.1."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.version == 4 and address.is_loopback and address != _DEFAULT_LOOPBACK
