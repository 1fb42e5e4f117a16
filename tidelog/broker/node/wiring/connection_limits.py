"""The limits of connections while the broker runs: what a changed config says, once its hosts are known.

A name server may take seconds for each host, so hosts are looked up in a thread. Meanwhile the former limits
hold. Of several changes the last one counts.

Bounds: one look-up at a time; a host that has no address ends it.
I/O: a shell; the name servers are asked in `executor`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from tidelog.base.config_definition import ConfigError
from tidelog.broker.config.node_config import BrokerConfig
from tidelog.broker.network.config import NetworkConfig, names_hosts
from tidelog.broker.network.server import NetworkServer
from tidelog.broker.node.wiring.network_settings import listener_limit, network_config

logger = logging.getLogger(__name__)


class ConnectionLimits:
    """Has one network server follow its limits."""

    def __init__(self, network: NetworkServer, executor: Executor) -> None:
        self._network = network
        self._executor = executor
        self._wanted: BrokerConfig | None = None
        self._looking_up: asyncio.Task[None] | None = None

    def follow(self, config: BrokerConfig) -> None:
        """Use the limits of `config`, at once unless it names hosts."""
        if not names_hosts(config.max_connections_per_ip_overrides):
            self._wanted = None
            self._use(config, lambda: network_config(config))
            return
        self._wanted = config
        if self._looking_up is None:
            self._looking_up = asyncio.get_running_loop().create_task(self._look_up())

    async def close(self) -> None:
        """Follow no further change."""
        self._wanted = None
        task, self._looking_up = self._looking_up, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _look_up(self) -> None:
        loop = asyncio.get_running_loop()
        while self._wanted is not None:
            config = self._wanted
            found = loop.run_in_executor(self._executor, network_config, config)
            await asyncio.wait([found])
            error = found.exception()
            # A change that came meanwhile is looked up next, or used already, whatever came of this one.
            if self._wanted is config:
                self._wanted = None
                self._use(config, found.result)
            elif error is not None:
                logger.info("limits of connections that were changed since are not used: %s", error)
        self._looking_up = None

    def _use(self, config: BrokerConfig, limits: Callable[[], NetworkConfig]) -> None:
        network = self._network
        try:
            changed = limits()
        except ConfigError as error:
            logger.error("the limits of connections stay as they are: %s", error)
            return
        network.use_limits(changed, {name: listener_limit(config, name) for name in network.listeners})
