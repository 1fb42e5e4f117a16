"""Where other nodes reach this controller: its listeners, which have limits of their own."""

from __future__ import annotations

from collections.abc import Callable

from broker.clock import Clock
from broker.config import BrokerConfig
from broker.network.request import Request
from broker.network.server import NetworkServer
from broker.wiring.network import listener_config, network_config
from cluster.quorum.voter_set import Endpoint


class ControllerListeners:
    """The listeners of `controller.listener.names`, bound but not yet accepting; there may be none."""

    def __init__(self, config: BrokerConfig, clock: Clock, on_request: Callable[[Request], None]) -> None:
        """Bind them. Errors: OSError naming listener and address."""
        self._config = config
        self.network: NetworkServer | None = None
        if config.is_controller and config.controller_listeners:
            self.network = NetworkServer(network_config(config), clock=clock)
            for listener in config.controller_listeners:
                self.network.bind(listener_config(config, listener), on_request)

    def endpoints(self, host_name: str) -> tuple[Endpoint, ...]:
        """Where other nodes are told to come; `host_name` stands in for an empty host."""
        if self.network is None:
            return ()
        ports = {name: listener.port for name, listener in self.network.listeners.items()}
        return tuple(
            Endpoint(listener.name, listener.host, listener.port)
            for listener in self._config.advertised_controllers(host_name, ports)
        )

    async def start(self) -> None:
        """Accept connections."""
        if self.network is not None:
            await self.network.start()

    async def close(self, timeout_s: float) -> None:
        """Close them once what is in hand is answered."""
        if self.network is not None:
            await self.network.close(timeout_s)
