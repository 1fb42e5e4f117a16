"""The network server: all listeners of a broker, their limits and memory, the idle sweep and shutdown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from tidelog.base.clock import Clock, SystemClock
from tidelog.base.log_limit import LogLimit
from tidelog.broker.network.config import ListenerConfig, NetworkConfig
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.connection_quota import ConnectionQuota
from tidelog.broker.network.connection_rates import ConnectionRates
from tidelog.broker.network.counters import NetworkCounters
from tidelog.broker.network.listener import Listener
from tidelog.broker.network.memory import MemoryRelease, RequestMemory, SpareMemory
from tidelog.broker.network.request import Request
from tidelog.broker.network.resources import NetworkResources
from tidelog.broker.network.response_memory import ResponseMemory
from tidelog.broker.network.shared_descriptors import SharedDescriptors
from tidelog.broker.network.socket_watcher import SocketWatcher
from tidelog.broker.network.sockets import SYSTEM_SOCKETS, Sockets
from tidelog.broker.network.turns import Turns

logger = logging.getLogger(__name__)

SWEEP_MS_MAX: Final = 5_000
STALLED_MS: Final = 10_000
"""The longest time to receive a large request while other requests wait for the memory that it holds."""
PEER_CLOSED_MS_MAX: Final = 5_000
"""The longest time that a connection stays open for pending responses after the peer has closed its side."""


class NetworkServer:
    """Owns listeners and connections; must be created within the running event loop.

    Order of use: `bind` each listener, after which its port is known, then `start`, and finally `close`.
    """

    def __init__(
        self,
        config: NetworkConfig,
        *,
        clock: Clock | None = None,
        sockets: Sockets = SYSTEM_SOCKETS,
        refusal_reason: Callable[[int, bool], str | None] | None = None,
    ) -> None:
        self.config = config
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.loop = asyncio.get_running_loop()
        self.quota = ConnectionQuota(config)
        self.connection_rates = ConnectionRates(config.quota_windows, config.max_connection_creation_rate)
        self.counters = NetworkCounters()
        self.spare_memory = SpareMemory()
        self.watcher = SocketWatcher(self.loop, self.clock, sockets)
        self.shared_descriptors = SharedDescriptors()
        self.turns = Turns(self.clock, self.loop.call_soon)
        queued_bytes = config.queued_max_request_bytes
        self.request_memory = (
            RequestMemory(queued_bytes, counts_all_requests=True)
            if queued_bytes > 0
            else RequestMemory(config.max_large_request_bytes)
        )
        self.log_limit = LogLimit(self.clock.monotonic_ms)
        """Limits log lines that clients can cause."""
        self.response_memory = ResponseMemory(config.max_unsent_response_bytes, self.log_limit)
        self._resources = NetworkResources(
            config=config,
            clock=self.clock,
            sockets=sockets,
            turns=self.turns,
            counters=self.counters,
            watcher=self.watcher,
            shared_descriptors=self.shared_descriptors,
            spare_memory=self.spare_memory,
            memory_release=MemoryRelease(self.loop.call_soon),
            request_memory=self.request_memory,
            response_memory=self.response_memory,
            log_limit=self.log_limit,
        )
        self.listeners: dict[str, Listener] = {}
        self.refusal_reason = refusal_reason
        """Returns why an accepted socket must be refused, or None.

        The arguments are its descriptor, and whether it was accepted on the inter-broker listener.
        """
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._all_closed: asyncio.Event | None = None
        self._is_closing = False
        self._closing_connections: set[Connection] = set()
        """Surplus connections that are being closed."""

    def bind(self, listener: ListenerConfig, on_request: Callable[[Request], None]) -> Listener:
        """Bind one address; `on_request` is called with every request that it receives.

        Errors: OSError naming listener and address.
        """
        assert listener.name not in self.listeners, f"listener {listener.name} exists"
        bound = self.listeners[listener.name] = Listener(self, self._resources, listener, on_request)
        self.quota.configure(self.config, {listener.name: listener.max_connections})
        self.connection_rates.update(
            self.config.max_connection_creation_rate, {listener.name: listener.max_connection_creation_rate}
        )
        return bound

    def update_limits(self, config: NetworkConfig, listener_limits: Mapping[str, int]) -> None:
        """Apply changed limits: close surplus connections, and admit waiting ones."""
        self.quota.configure(config, listener_limits)
        self.close_surplus_connections()
        self._admit_waiting()

    def close_surplus_connections(self) -> None:
        """Over max.connections, close the connections with the longest idle time, but none of brokers."""
        close_count = self.quota.surplus - len(self._closing_connections)
        if close_count <= 0:
            return
        candidates = [
            connection
            for name, listener in self.listeners.items()
            if not self.quota.is_protected(name)
            for connection in listener.connections
            if connection not in self._closing_connections
        ]
        candidates.sort(key=lambda each: (each.core.is_active, each.core.idle_since_ms))
        for connection in candidates[:close_count]:
            self.log_limit.log(
                logger,
                logging.WARNING,
                "Closing connection from %s: more than max.connections are open",
                connection.peer,
                extra={"peer": connection.peer},
            )
            self._closing_connections.add(connection)
            connection.abort()

    def _admit_waiting(self) -> None:
        for listener in self.listeners.values():
            listener.admit_waiting()

    async def start(self) -> None:
        """Accept connections on every bound listener."""
        for listener in self.listeners.values():
            listener.start()
        self._sweep_later()

    def port(self, listener: str) -> int:
        """Return the port of a listener; it differs from the configured port if that is 0."""
        return self.listeners[listener].port

    def connections(self) -> Iterator[Connection]:
        """Iterate over all open connections."""
        for listener in self.listeners.values():
            yield from listener.connections

    def bytes_out(self) -> int:
        """Return the bytes of all responses since the start."""
        return self.counters.bytes_out_of_closed + sum(one.sent_bytes for one in self.connections())

    def sweep(self) -> None:
        """Close connections that were idle for connections.max.idle.ms, and release unused memory.

        As in Kafka, a connection is idle if no byte was received from the peer, and none was read by it. A
        request that waits, for example for records, does not keep its connection open.
        """
        now_ms = self.clock.monotonic_ms()
        limit_ms = self.config.connections_max_idle_ms
        may_stall_ms = now_ms - STALLED_MS if self.request_memory.has_waiting else None
        for connection in list(self.connections()):
            core, idle_ms = connection.core, connection.sweep(now_ms)
            if may_stall_ms is not None and core.holds_memory_since(may_stall_ms):
                connection.fail("its request is incomplete, and other requests wait for the memory")
            elif core.has_peer_closed and idle_ms >= PEER_CLOSED_MS_MAX:
                connection.abort()
            elif 0 <= limit_ms <= idle_ms:
                self.counters.connections_expired += 1
                self.log_limit.log(
                    logger, logging.INFO, "Closing connection from %s: idle for %d ms",
                    connection.peer, limit_ms, extra={"peer": connection.peer},
                )  # fmt: skip
                connection.abort()

    async def close(self, timeout_s: float = 5.0) -> None:
        """Stop accepting, wait at most `timeout_s` for the responses of open requests, close everything."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for listener in self.listeners.values():
            listener.stop()
            listener.close_waiting()
        self._is_closing = True
        for connection in list(self.connections()):
            connection.drain()
        if not await self._wait_until_closed(timeout_s):
            for connection in list(self.connections()):
                # Without a grace period this is intended, so it is not a warning.
                level = logging.WARNING if timeout_s > 0 else logging.DEBUG
                self.log_limit.log(logger, level, "Aborting connection from %s at shutdown", connection.peer)
                connection.abort()
            await self._wait_until_closed(1.0)
        self.watcher.close()

    def on_connection_closed(self, connection: Connection) -> None:
        """Admit a waiting connection, because a connection that had a slot has ended."""
        self._closing_connections.discard(connection)
        if not self._is_closing:
            self._admit_waiting()
        if self._all_closed is not None and not self.quota.count:
            self._all_closed.set()

    async def _wait_until_closed(self, timeout_s: float) -> bool:
        """Return whether all connections have ended within `timeout_s`."""
        if not self.quota.count:
            return True
        self._all_closed = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_closed.wait()
        except TimeoutError:
            return False
        return True

    def _sweep_later(self) -> None:
        interval_ms = SWEEP_MS_MAX
        if self.config.connections_max_idle_ms >= 0:
            interval_ms = max(10, min(interval_ms, self.config.connections_max_idle_ms // 4))
        self._sweep_timer = self.loop.call_later(interval_ms / 1000, self._on_sweep_timer)

    def _on_sweep_timer(self) -> None:
        self.sweep()
        self.log_limit.report()
        self._sweep_later()
