"""The TLS of this node's connections to other nodes: between brokers, and to controllers.

As in Kafka, they have the settings of the listener to which they connect: inter.broker.listener.name, or the
first of controller.listener.names. A node presents the certificate of its own listener of this name.
"""

from __future__ import annotations

from tidelog.broker.config.listener_tls import listener_tls_settings, uses_tls
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.quorum_config import controller_listener_name
from tidelog.clients.config.client_config import ContextSource
from tidelog.security.tls.client import TlsClient, load_client_identity
from tidelog.security.tls.server import load_server_identity
from tidelog.security.tls.verification import check_handshake


class NodeTls:
    """The identities of connections to other nodes, by the name of the listener."""

    def __init__(self, config: BrokerConfig) -> None:
        """Load the identities. I/O: reads stores.

        Errors: ConfigError if a store cannot be used, or if nodes with these stores could not connect to each
        other.
        """
        names = [controller_listener_name(config)]
        if config.is_broker:
            names += [config.inter_broker_listener, config.metadata_listener]
        self._clients = {name: client for name in names if (client := _client(config, name)) is not None}

    def client(self, listener: str) -> TlsClient | None:
        """Return the identity of connections to a listener; None if they are not encrypted."""
        return self._clients.get(listener)

    def source(self, listener: str) -> ContextSource | None:
        """Return the contexts of connections to a listener; None if they are not encrypted."""
        client = self.client(listener)
        return None if client is None else client.context


def _client(config: BrokerConfig, name: str) -> TlsClient | None:
    listener = config.listener_of_nodes(name)
    if not uses_tls(listener):
        return None
    settings = listener_tls_settings(config, listener)
    client = TlsClient(load_client_identity(settings))
    if any(own.name == name for own in config.own_listeners):
        check_handshake(load_server_identity(settings), client.identity)
    return client
