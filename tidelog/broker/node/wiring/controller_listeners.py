"""The listeners of a node for controllers, controller.listener.names; a node without that role has none."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.base.clock import Clock
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring.network_settings import listener_config, network_config
from tidelog.cluster.quorum.voter_set import Endpoint


class ControllerListeners:
    """Owns the listeners: `bind`, then `start` when the controller is complete, `close` at the end."""

    def __init__(self, config: BrokerConfig, clock: Clock, on_request: Callable[[Request], None]) -> None:
        self._config = config
        self._on_request = on_request
        has_listeners = config.is_controller and bool(config.controller_listeners)
        self.network = NetworkServer(network_config(config), clock=clock) if has_listeners else None
        """None if this node has no listener for controllers."""

    def bind(self) -> None:
        """Bind the addresses; clients are refused until `start`. Raise OSError with listener and address."""
        if self.network is not None:
            for listener in self._config.controller_listeners:
                self.network.bind(listener_config(self._config, listener), self._on_request)

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
        if self.network is not None:
            await self.network.start()

    async def close(self) -> None:
        """Close the listeners and their connections."""
        if self.network is not None:
            await self.network.close(timeout_s=0)
