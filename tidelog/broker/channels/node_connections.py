"""The settings of this node's connections to the other nodes of its cluster."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.sasl_config import peer_credentials
from tidelog.clients.config.client_config import ContextSource
from tidelog.clients.security.sasl_authenticator import SaslAuthenticator
from tidelog.clients.transport.connecting import ConnectionSettings

_MAX_RESPONSE_BYTES: Final = 104_857_600
_USUAL_LOOPBACK: Final = ip_address("127.0.0.1")


def node_connection_settings(
    config: BrokerConfig,
    listener: str,
    *,
    ssl: ContextSource | None,
    request_timeout_ms: int,
    max_response_bytes: int = _MAX_RESPONSE_BYTES,
    receive_buffer_bytes: int = -1,
) -> ConnectionSettings:
    """Return the settings of a connection to another node, to its listener with the name `listener`.

    `ssl` returns the TLS context; None without TLS. `request_timeout_ms` is the longest time to wait for a
    response. A `receive_buffer_bytes` of -1 leaves the size of the socket buffer to the operating system.
    """
    credentials = peer_credentials(config, listener)
    return ConnectionSettings(
        client_id=str(config.node_id),
        max_response_bytes=max_response_bytes,
        request_timeout_ms=request_timeout_ms,
        setup_timeout_ms=config.socket_connection_setup_timeout_ms,
        receive_buffer_bytes=receive_buffer_bytes,
        ssl=ssl,
        local_host=source_address(config),
        authenticator=None if credentials is None else SaslAuthenticator(credentials),
    )


def source_address(config: BrokerConfig) -> str | None:
    """Return the address to connect from; None if the operating system selects it.

    Several nodes on one machine may have different loopback addresses, such as 127.0.0.2. Each node then
    connects from its own address, so that the traffic between two nodes can be identified and blocked.
    """
    names = {config.inter_broker_listener, *(listener.name for listener in config.controller_listeners)}
    for listener in (*config.broker_listeners, *config.controller_listeners):
        if listener.name not in names:
            continue
        try:
            address = ip_address(listener.host)
        except ValueError:
            continue
        if address.version == _USUAL_LOOPBACK.version and address.is_loopback and address != _USUAL_LOOPBACK:
            return listener.host
    return None
