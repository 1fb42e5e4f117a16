"""A node's channels to the active controller, and where that is.

Three channels, because requests of one stand in line behind each other: heartbeats must not wait
for a client's request, and a change of an in-sync set must not either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_channel import PATIENCE_MS, ControllerChannel, LocalController
from tidelog.broker.channels.node_connections import node_connection_settings
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.metadata.store import MetadataStore
from tidelog.clients.config.environment import Environment, SystemEnvironment
from tidelog.clients.transport.broker_address import BrokerAddress
from tidelog.cluster.quorum.voter_set import Endpoint
from tidelog.protocol.ids import BrokerId

# A heartbeat may come twice, and must not come late.
_HEARTBEAT_PATIENCE_MS: Final = 50


class ControllerAccess:
    """`heartbeats` for the broker's life, `forwarding` for clients, `general` for all else."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        clock: Clock,
        *,
        local: LocalController | None,
        endpoints: Callable[[], Iterable[Endpoint]] = tuple,
        environment: Environment | None = None,
    ) -> None:
        """`endpoints`: where the quorum says that its leader is reached."""
        self._config = config
        self._store = store
        self._clock = clock
        self._local = local
        self._endpoints = endpoints
        self._environment = environment or SystemEnvironment()
        self._voters = voter_addresses(config)
        timeout_ms = config.controller_socket_timeout_ms
        self.heartbeats = self._channel(
            min(timeout_ms, config.broker_session_timeout_ms // 2), patience_ms=_HEARTBEAT_PATIENCE_MS
        )
        self.forwarding = self._channel(min(timeout_ms, config.request_timeout_ms))
        self.general = self._channel(timeout_ms)

    @property
    def environment(self) -> Environment:
        """Chance, and the network."""
        return self._environment

    def address(self) -> BrokerAddress | None:
        """Where the active controller listens; None while that is not known."""
        leader = self._store.leader
        if leader is None or leader == self._config.node_id:
            return None
        registration = self._store.image.controllers.get(leader)
        registered = () if registration is None else registration.end_points
        for known in (
            {each.listener_name.upper(): (each.host, each.port) for each in self._endpoints()},
            {each.name.upper(): (each.host, each.port) for each in registered},
        ):
            for name in self._config.controller_listener_names:
                found = known.get(name.upper())
                if found is not None:
                    return BrokerAddress(leader, *found)
        return self._voters.get(leader)

    def controller_changed(self) -> None:
        """Hear that another node may be the active controller now."""
        for channel in self._channels():
            channel.controller_changed()

    async def close(self) -> None:
        """Close every channel."""
        await asyncio.gather(*(channel.close() for channel in self._channels()))

    def _channels(self) -> tuple[ControllerChannel, ...]:
        return self.heartbeats, self.forwarding, self.general

    def _channel(self, request_timeout_ms: int, patience_ms: int = PATIENCE_MS) -> ControllerChannel:
        return ControllerChannel(
            find=self.address,
            environment=self._environment,
            settings=node_connection_settings(self._config, request_timeout_ms=request_timeout_ms),
            clock=self._clock,
            local=self._local,
            patience_ms=patience_ms,
        )


def voter_addresses(config: BrokerConfig) -> Mapping[BrokerId, BrokerAddress]:
    """The controllers that controller.quorum.voters names, by id."""
    addresses = {}
    for voter in config.controller_quorum_voters:
        node, _, address = voter.strip().partition("@")
        host, _, port = address.rpartition(":")
        addresses[int(node)] = BrokerAddress(int(node), host.strip("[]"), int(port))
    return addresses
