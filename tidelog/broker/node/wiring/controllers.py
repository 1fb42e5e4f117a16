"""The controller half of a node put together: its listeners, registration, and the way to the active one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_access import ControllerAccess
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.controller.controller import Controller
from tidelog.broker.metadata.controller_address import ControllerAddress
from tidelog.broker.metadata.store import MetadataStore
from tidelog.broker.network.request import Request
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring.network import listener_config, network_config
from tidelog.broker.node.wiring.raft_node import RaftNode
from tidelog.broker.registration.controller_registration import ControllerRegistration
from tidelog.clients.config.environment import Environment
from tidelog.cluster.quorum.voter_set import Endpoint


def make_access(
    config: BrokerConfig, raft: RaftNode, controller: Controller, clock: Clock, environment: Environment
) -> ControllerAccess:
    """The node's channels to the active controller, which may be its own."""
    return ControllerAccess(
        config,
        ControllerAddress(config, raft.store, raft.leader_endpoints).find,
        clock,
        local=controller.in_process if config.is_controller else None,
        environment=environment,
    )


def make_registration(
    config: BrokerConfig,
    access: ControllerAccess,
    store: MetadataStore,
    clock: Clock,
    *,
    incarnation_id: UUID,
    listeners: Iterable[Listener],
) -> ControllerRegistration:
    """What keeps the metadata's word of this controller right, once it is started."""
    return ControllerRegistration(
        access.general,
        store,
        clock,
        node_id=config.node_id,
        incarnation_id=incarnation_id,
        listeners=listeners,
    )


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
        return tuple(
            Endpoint(listener.name, listener.host, listener.port)
            for listener in self._config.advertised_controllers(host_name, self.ports())
        )

    def ports(self) -> dict[str, int]:
        """The port of each, which matters where 0 was asked for."""
        network = self.network
        return {} if network is None else {name: each.port for name, each in network.listeners.items()}

    async def start(self) -> None:
        """Accept connections."""
        if self.network is not None:
            await self.network.start()

    async def close(self, timeout_s: float) -> None:
        """Close them once what is in hand is answered."""
        if self.network is not None:
            await self.network.close(timeout_s)
