"""The listeners of a node for controllers, controller.listener.names; a node without that role has none.

As in Kafka, dynamic configs of the node change their certificates and connection limits while the node runs.
Dynamic configs of SASL have no effect on these listeners.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.config.dynamic_configs import DynamicBrokerConfig
from tidelog.broker.config.listeners import Listener
from tidelog.broker.network.authentication_counters import AuthenticationCounters
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring.connection_limits import ConnectionLimits
from tidelog.broker.node.wiring.network_settings import listener_config, network_config
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.tls_certificates import TlsCertificates
from tidelog.broker.quotas.address_quotas import AddressQuotas
from tidelog.cluster.delta import MetadataDelta
from tidelog.cluster.image import MetadataImage
from tidelog.cluster.quorum.voter_set import Endpoint


class ControllerListeners:
    """Owns the listeners: `bind`, then `start` when the controller is complete, `close` at the end."""

    def __init__(
        self,
        context: NodeContext,
        request_handler: Callable[[Listener, AuthenticationCounters], Callable[[Request], None]],
    ) -> None:
        """Create the listeners; `request_handler` returns the function that handles a listener's requests."""
        config = self._config = context.config
        self._request_handler = request_handler
        has_listeners = config.is_controller and bool(config.controller_listeners)
        self.network = (
            NetworkServer(network_config(config), clock=context.clock, sockets=context.sockets)
            if has_listeners
            else None
        )
        """None if this node has no listener for controllers."""
        self.address_quotas: AddressQuotas | None = None
        self._certificates: TlsCertificates | None = None
        self._limits: ConnectionLimits | None = None
        # A broker reports the configs that cannot be used itself.
        self._dynamic = DynamicBrokerConfig(config, logs_problems=not config.is_broker)
        if self.network is not None:
            executor = context.threads.housekeeping
            self.address_quotas = AddressQuotas(self.network.connection_rates, executor)
            self._certificates = TlsCertificates(
                self.network, config.controller_listeners, config, context.tls, executor
            )
            self._limits = ConnectionLimits(self.network, executor)

    def bind(self) -> None:
        """Bind the addresses; clients are refused until `start`. Raise OSError with listener and address."""
        if self.network is not None:
            for listener in self._config.controller_listeners:
                authentications = self.network.counters.authentications[listener.name]
                self.network.bind(
                    listener_config(self._config, listener), self._request_handler(listener, authentications)
                )

    def endpoints(self, host_name: str) -> tuple[Endpoint, ...]:
        """Return the advertised addresses; `host_name` replaces an empty host."""
        if self.network is None:
            return ()
        return tuple(
            Endpoint(listener.name, listener.host, listener.port)
            for listener in self._config.advertised_controllers(host_name, self.ports())
        )

    def ports(self) -> dict[str, int]:
        """Return the bound port of each listener; it differs from the configured port if that is 0."""
        network = self.network
        return {} if network is None else {name: each.port for name, each in network.listeners.items()}

    async def start(self) -> None:
        """Accept connections."""
        if self.network is not None and self._certificates is not None:
            self._certificates.start()
            await self.network.start()

    def on_metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply changed dynamic configs of this node. A subscriber of the metadata."""
        if self._certificates is None or self._limits is None or not self._dynamic.apply(delta, image):
            return
        self._certificates.apply(self._dynamic.current)
        self._limits.apply(self._dynamic.current)

    async def close(self) -> None:
        """Close the listeners and their connections."""
        if self.address_quotas is not None:
            await self.address_quotas.close()
        if self._limits is not None:
            await self._limits.close()
        if self._certificates is not None:
            await self._certificates.close()
        if self.network is not None:
            await self.network.close(timeout_s=0)
