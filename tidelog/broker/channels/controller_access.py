"""The channels of a node to the active controller.

There are three channels, because the controller handles the requests of one connection one after the other.
A heartbeat must not wait for a client's request, and neither must a change of an in-sync set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tidelog.base.clock import Clock
from tidelog.broker.channels.controller_channel import (
    FORMER_CONTROLLER_GRACE_MS,
    ControllerChannel,
    LocalController,
)
from tidelog.broker.channels.node_connections import node_connection_settings
from tidelog.broker.channels.peer_security import PeerSecurity
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.scheduling.slices import Slices
from tidelog.clients.config.environment import Environment, SystemEnvironment
from tidelog.clients.transport.broker_address import BrokerAddress

# A heartbeat may be sent twice, but must not be late.
_HEARTBEAT_GRACE_MS: Final = 50


class ControllerAccess:
    """Owns the channels `heartbeats`, `forwarding` (for clients' requests) and `general`."""

    def __init__(
        self,
        config: BrokerConfig,
        find: Callable[[], BrokerAddress | None],
        clock: Clock,
        *,
        slices: Slices,
        local: LocalController | None,
        security: PeerSecurity,
        environment: Environment | None = None,
    ) -> None:
        """Create the channels; `find` returns the active controller's address, None if unknown or own."""
        self._config = config
        self._find = find
        self._clock = clock
        self._slices = slices
        self._local = local
        self._security = security
        self._environment = environment or SystemEnvironment()
        timeout_ms = config.controller_socket_timeout_ms
        self.heartbeats = self._channel(
            min(timeout_ms, config.broker_session_timeout_ms // 2), grace_ms=_HEARTBEAT_GRACE_MS
        )
        self.forwarding = self._channel(min(timeout_ms, config.request_timeout_ms))
        self.general = self._channel(timeout_ms)

    @property
    def environment(self) -> Environment:
        """The network and the source of randomness that the channels use."""
        return self._environment

    def on_controller_changed(self) -> None:
        """Notify every channel that the active controller may have changed."""
        for channel in self._channels():
            channel.on_controller_changed()

    async def close(self) -> None:
        """Close every channel."""
        await asyncio.gather(*(channel.close() for channel in self._channels()))

    def _channels(self) -> tuple[ControllerChannel, ...]:
        return self.heartbeats, self.forwarding, self.general

    def _channel(
        self, request_timeout_ms: int, grace_ms: int = FORMER_CONTROLLER_GRACE_MS
    ) -> ControllerChannel:
        return ControllerChannel(
            find=self._find,
            environment=self._environment,
            settings=node_connection_settings(
                self._config,
                security=self._security,
                request_timeout_ms=request_timeout_ms,
            ),
            clock=self._clock,
            slices=self._slices,
            local=self._local,
            grace_ms=grace_ms,
        )
