"""The listeners of a broker, and the dispatch of their requests to handlers."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.broker.api.dispatch import Dispatcher
from tidelog.broker.config.listeners import Listener
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.config.quorum_config import controller_listener_name
from tidelog.broker.logs.descriptor_budget import process_budget
from tidelog.broker.network.request_channel import RequestChannel
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring.connection_limits import ConnectionLimits
from tidelog.broker.node.wiring.listener_authentication import ListenerAuthentication
from tidelog.broker.node.wiring.network_settings import listener_config, network_config
from tidelog.broker.node.wiring.node_context import NodeContext
from tidelog.broker.node.wiring.tls_certificates import TlsCertificates
from tidelog.broker.quotas.address_quotas import AddressQuotas
from tidelog.broker.quotas.client_rates import ClientRates
from tidelog.broker.quotas.request_quotas import RequestQuotas
from tidelog.broker.security.authorization.authorizer import Authorizer
from tidelog.broker.security.authorization.request_guard import RequestGuard
from tidelog.broker.security.authorization.required_operations import BROKER_OPERATIONS
from tidelog.cluster.image import MetadataImage


class BrokerNetwork:
    """Owns the listeners: `bind`, then `start` when handlers are registered, `close` at the end."""

    def __init__(
        self,
        context: NodeContext,
        authorizer: Authorizer,
        image: Callable[[], MetadataImage],
        request_rates: ClientRates,
    ) -> None:
        """Create the listeners without binding them. Errors: ConfigError for a host without an address.

        `request_rates` are the rates of request time; the controller of the node shares them.
        """
        self._context = context
        self._budget = process_budget()
        self._is_closed = False
        config = context.config
        self.server = NetworkServer(
            network_config(config),
            clock=context.clock,
            sockets=context.sockets,
            refusal_reason=self._refusal_reason,
        )
        self._limits = ConnectionLimits(self.server, context.threads.housekeeping)
        self.address_quotas = AddressQuotas(self.server.connection_rates, context.threads.housekeeping)
        self.certificates = TlsCertificates(
            self.server,
            (*config.broker_listeners, *_listeners_of_controllers(config)),
            config,
            context.tls,
            context.threads.housekeeping,
        )
        self.channel = RequestChannel(config.queued_max_requests)
        self.quotas = RequestQuotas(context.clock, config.quota_windows, request=request_rates)
        self.dispatcher = Dispatcher(
            self.channel,
            context.metrics.requests,
            context.clock,
            context.slices,
            quotas=self.quotas,
            guard=RequestGuard(authorizer, BROKER_OPERATIONS),
        )
        self._authentication = ListenerAuthentication(context, image, self.dispatcher.dispatch)

    def bind(self) -> None:
        """Bind the addresses; clients are refused until `start`. Raise OSError with listener and address."""
        config = self._context.config
        for listener in config.broker_listeners:
            authentications = self.server.counters.authentications[listener.name]
            self.server.bind(
                listener_config(config, listener),
                self._authentication.request_handler(listener, authentications),
            )

    @property
    def ports(self) -> dict[str, int]:
        """The bound port of each listener."""
        return {name: listener.port for name, listener in self.server.listeners.items()}

    def advertised(self) -> tuple[Listener, ...]:
        """Return the listeners with their advertised addresses."""
        return self._context.config.advertised(self._context.host_name, self.ports)

    async def start(self) -> None:
        """Accept connections."""
        await self._authentication.start()
        self.certificates.start()
        await self.server.start()

    def apply(self, config: BrokerConfig) -> None:
        """Apply changed connection limits, certificates, users, mechanisms and credentials of this node."""
        self._authentication.apply(config)
        self._context.peers.apply(config)
        self._limits.apply(config)
        self.certificates.apply(config)

    async def close(self, timeout_s: float = 0) -> None:
        """Close the listeners; wait at most `timeout_s` for responses in progress."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._limits.close()
        await self.address_quotas.close()
        await self.certificates.close()
        await self._authentication.close()
        await self.server.close(timeout_s)

    def _refusal_reason(self, descriptor: int, is_protected: bool) -> str | None:
        """Return the reason to refuse an accepted socket; None if it may stay.

        `is_protected`: brokers connect to this listener. Their connections do not count against the limit.
        """
        listeners = () if is_protected else self.server.listeners.values()
        return self._budget.connection_refusal(descriptor, sum(each.socket_count for each in listeners))


def _listeners_of_controllers(config: BrokerConfig) -> tuple[Listener, ...]:
    """Return the listener of the controllers if this node has none of its own."""
    if config.is_controller:
        return ()
    return (config.listener_of_nodes(controller_listener_name(config)),)
