"""The authentication of a node's listeners: the handlers of received requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.sasl_config import SASL_PROTOCOLS, sasl_listener_config
from tidelog.broker.network.request import Request
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.security.authentication.exchanges import exchange_factory
from tidelog.broker.security.authentication.gate import GatePorts, SaslGate
from tidelog.broker.security.authentication.scram_credentials import ScramCredentials
from tidelog.cluster.image import MetadataImage


class ListenerAuthentication:
    """Creates the gates of listeners with SASL; `on_request` handles requests of authenticated clients."""

    def __init__(
        self,
        context: NodeContext,
        image: Callable[[], MetadataImage],
        on_request: Callable[[Request], None],
    ) -> None:
        self._context = context
        self._credentials = ScramCredentials(image, context.randomness)
        self._on_request = on_request

    def request_handler(self, listener: Listener) -> Callable[[Request], None]:
        """Return the function that handles each request that `listener` receives."""
        if listener.security_protocol not in SASL_PROTOCOLS:
            return self._on_request
        context = self._context
        config = sasl_listener_config(context.config, listener.name)
        ports = GatePorts(
            clock=context.clock,
            call_later=asyncio.get_running_loop().call_later,
            on_request=self._on_request,
            request_bytes_max=context.config.socket_request_max_bytes,
        )
        return SaslGate(config, exchange_factory(config, self._credentials, context.randomness), ports).handle
