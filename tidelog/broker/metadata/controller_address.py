"""The address of the active controller, from the quorum, its registration or the configuration.

Source: RaftControllerNodeProvider of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.store import MetadataStore
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.ids import BrokerId


class ControllerAddress:
    """Finds the endpoint of the active controller by the names in controller.listener.names."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        leader_endpoints: Callable[[], Iterable[Endpoint]] = tuple,
    ) -> None:
        """Create it; `leader_endpoints` returns the endpoints that the quorum has reported for its leader."""
        self._config = config
        self._store = store
        self._leader_endpoints = leader_endpoints
        self._voters = voter_addresses(config)

    def find(self) -> BrokerAddress | None:
        """Return the address of the active controller; None if it is unknown or this node.

        Endpoints reported by the quorum come first, then those that the controller has registered,
        then controller.quorum.voters.
        """
        leader = self._store.leader
        if leader is None or leader == self._config.node_id:
            return None
        registration = self._store.image.controllers.get(leader)
        registered_endpoints = () if registration is None else registration.end_points
        for endpoints in (
            {each.listener_name.upper(): (each.host, each.port) for each in self._leader_endpoints()},
            {each.name.upper(): (each.host, each.port) for each in registered_endpoints},
        ):
            for name in self._config.controller_listener_names:
                address = endpoints.get(name.upper())
                if address is not None:
                    return BrokerAddress(leader, *address)
        return self._voters.get(leader)


def voter_addresses(config: BrokerConfig) -> Mapping[BrokerId, BrokerAddress]:
    """Return the controllers in controller.quorum.voters by node id."""
    addresses = {}
    for voter in config.controller_quorum_voters:
        node, _, address = voter.strip().partition("@")
        host, _, port = address.rpartition(":")
        addresses[int(node)] = BrokerAddress(int(node), host.strip("[]"), int(port))
    return addresses
