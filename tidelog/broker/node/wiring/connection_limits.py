"""Applies changed connection limits while the broker runs, after host names are resolved.

A name server may take seconds for each host, so hosts are resolved in a thread. Until then the old limits
apply. If there are several changes, the last one is applied.

Bounds: one resolution at a time; a host without an address ends it.
I/O: a shell; names are resolved in `executor`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.config import NetworkConfig, has_host_names
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring.network_settings import listener_creation_rate, listener_limit, network_config

logger = logging.getLogger(__name__)


class ConnectionLimits:
    """Applies the limits of the configuration to one network server."""

    def __init__(self, network: NetworkServer, executor: Executor) -> None:
        self._network = network
        self._executor = executor
        self._next_config: BrokerConfig | None = None
        """The configuration whose limits are not applied yet; None if there is none."""
        self._task: asyncio.Task[None] | None = None

    def apply(self, config: BrokerConfig) -> None:
        """Apply the limits in `config`, at once unless they contain host names."""
        if not has_host_names(config.max_connections_per_ip_overrides):
            self._next_config = None
            self._apply(config, lambda: network_config(config))
            return
        self._next_config = config
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._resolve())

    async def close(self) -> None:
        """Apply no further change."""
        self._next_config = None
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _resolve(self) -> None:
        loop = asyncio.get_running_loop()
        while self._next_config is not None:
            config = self._next_config
            resolution = loop.run_in_executor(self._executor, network_config, config)
            await asyncio.wait([resolution])
            error = resolution.exception()
            # If there is a later change, it is resolved next or applied already, and this one is ignored.
            if self._next_config is config:
                self._next_config = None
                self._apply(config, resolution.result)
            elif error is not None:
                logger.info("Ignoring invalid connection limits, which have changed again: %s", error)
        self._task = None

    def _apply(self, config: BrokerConfig, read_limits: Callable[[], NetworkConfig]) -> None:
        network = self._network
        try:
            limits = read_limits()
        except ConfigError as error:
            logger.error("Cannot change the connection limits: %s; keeping the old limits", error)
            return
        network.update_limits(limits, {name: listener_limit(config, name) for name in network.listeners})
        network.connection_rates.update(
            limits.max_connection_creation_rate,
            {name: listener_creation_rate(config, name) for name in network.listeners},
        )
