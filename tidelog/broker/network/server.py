"""The network server: all listeners of a broker, their limits and memory, the idle sweep and shutdown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping

from tidelog.base.clock import Clock, SystemClock
from tidelog.base.log_limit import LogLimit
from tidelog.broker.network.config import ListenerConfig, NetworkConfig
from tidelog.broker.network.connection import Connection
from tidelog.broker.network.connection_quota import ConnectionQuota
from tidelog.broker.network.counters import NetworkCounters
from tidelog.broker.network.kept_files import KeptFiles
from tidelog.broker.network.listener import Listener
from tidelog.broker.network.memory import RequestMemory, SpareMemory
from tidelog.broker.network.request import Request
from tidelog.broker.network.resources import NetworkResources
from tidelog.broker.network.response_memory import ResponseMemory
from tidelog.broker.network.socket_watcher import SocketWatcher
from tidelog.broker.network.turns import Turns

logger = logging.getLogger(__name__)

SWEEP_MS_MAX = 5_000
# How long a large request may take to be received while others wait for the memory that it holds.
STALLED_MS = 10_000
# How long requests that are being worked on may still be answered to a peer that has closed its side.
PEER_CLOSED_MS_MAX = 5_000


class NetworkServer:
    """Owns listeners and connections; must be created within the event loop that it uses.

    Order of use: `bind` each listener (its port is then known), `start`, and at the end `close`.
    """

    def __init__(self, config: NetworkConfig, *, clock: Clock | None = None) -> None:
        self.config = config
        self.clock: Clock = clock if clock is not None else SystemClock()
        self.loop = asyncio.get_running_loop()
        self.quota = ConnectionQuota(config)
        self.counters = NetworkCounters()
        self.spare_memory = SpareMemory()
        self.watcher = SocketWatcher(self.loop, self.clock)
        self.kept_files = KeptFiles()
        self.turns = Turns(self.clock, self.loop.call_soon)
        queued_bytes = config.queued_max_request_bytes
        self.request_memory = (
            RequestMemory(queued_bytes, is_kafkas=True)
            if queued_bytes > 0
            else RequestMemory(config.max_large_request_bytes)
        )
        self.log_limit = LogLimit(self.clock.monotonic_ms)
        """For lines that clients can cause."""
        self.response_memory = ResponseMemory(config.max_unsent_response_bytes, self.log_limit)
        self._resources = NetworkResources(
            config=config,
            clock=self.clock,
            turns=self.turns,
            counters=self.counters,
            watcher=self.watcher,
            kept_files=self.kept_files,
            spare_memory=self.spare_memory,
            request_memory=self.request_memory,
            response_memory=self.response_memory,
            log_limit=self.log_limit,
        )
        self.listeners: dict[str, Listener] = {}
        self.socket_refusal: Callable[[int, bool], str | None] | None = None
        """Why there is no room for an accepted socket with this descriptor; True: it may be a broker's."""
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._all_gone: asyncio.Event | None = None
        self._is_closing = False
        self._making_room: set[Connection] = set()
        """Connections that are being closed because there are too many."""

    def bind(self, listener: ListenerConfig, on_request: Callable[[Request], None]) -> Listener:
        """Bind one address; `on_request` is called with every request that comes in by it.

        Errors: OSError naming listener and address.
        """
        assert listener.name not in self.listeners, f"listener {listener.name} exists"
        bound = self.listeners[listener.name] = Listener(self, self._resources, listener, on_request)
        self.quota.listener_limits[listener.name] = listener.max_connections
        return bound

    def use_limits(self, config: NetworkConfig, listener_limits: Mapping[str, int]) -> None:
        """Apply changed limits of connections: close surplus ones, and admit waiting ones."""
        self.quota.config = config
        self.quota.listener_limits.update(listener_limits)
        self.make_room()
        self._admit_waiting()

    def make_room(self) -> None:
        """Over max.connections, close connections that were idle longest, but none between brokers."""
        missing = self.quota.surplus - len(self._making_room)
        if missing <= 0:
            return
        candidates = [
            connection
            for name, listener in self.listeners.items()
            if not self.quota.is_protected(name)
            for connection in listener.connections
            if connection not in self._making_room
        ]
        candidates.sort(key=lambda each: (each.core.is_active, each.core.idle_since_ms))
        for connection in candidates[:missing]:
            self.log_limit.log(
                logger,
                logging.WARNING,
                "closing connection from %s to make room (max.connections)",
                connection.peer,
                extra={"peer": connection.peer},
            )
            self._making_room.add(connection)
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
        """Every open connection."""
        for listener in self.listeners.values():
            yield from listener.connections

    def bytes_out(self) -> int:
        """Return the bytes of all responses since the start."""
        return self.counters.bytes_out_before + sum(one.sent_bytes for one in self.connections())

    def sweep(self) -> None:
        """Close connections that were idle for connections.max.idle.ms, and take back unused memory.

        Idle means as in Kafka that no byte was received, and none taken by the peer; a request that waits,
        for records or for other members of a group, keeps no connection open.
        """
        now_ms = self.clock.monotonic_ms()
        limit_ms = self.config.connections_max_idle_ms
        may_stall_ms = now_ms - STALLED_MS if self.request_memory.has_waiting else None
        for connection in list(self.connections()):
            core, idle_ms = connection.core, connection.sweep(now_ms)
            if may_stall_ms is not None and core.holds_memory_since(may_stall_ms):
                connection.fail("others wait for the memory of its request, which is not complete")
            elif core.has_peer_closed and idle_ms >= PEER_CLOSED_MS_MAX:
                connection.abort()
            elif 0 <= limit_ms <= idle_ms:
                self.counters.connections_expired += 1
                self.log_limit.log(
                    logger, logging.INFO, "closing connection from %s: idle for %d ms",
                    connection.peer, limit_ms, extra={"peer": connection.peer},
                )  # fmt: skip
                connection.abort()

    async def close(self, timeout_s: float = 5.0) -> None:
        """Stop accepting, wait at most `timeout_s` for responses of requests in hand, close everything."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for listener in self.listeners.values():
            listener.stop()
            listener.turn_away()
        self._is_closing = True
        for connection in list(self.connections()):
            connection.drain()
        if not await self._wait_until_gone(timeout_s):
            for connection in list(self.connections()):
                # Without a grace period this is intended, and not a warning.
                level = logging.WARNING if timeout_s > 0 else logging.DEBUG
                self.log_limit.log(logger, level, "aborting connection from %s at shutdown", connection.peer)
                connection.abort()
            await self._wait_until_gone(1.0)
        self.watcher.close()

    def connection_gone(self, connection: Connection) -> None:
        """Admit a waiting connection, because a connection that had a slot has ended."""
        self._making_room.discard(connection)
        if not self._is_closing:
            self._admit_waiting()
        if self._all_gone is not None and not self.quota.count:
            self._all_gone.set()

    async def _wait_until_gone(self, timeout_s: float) -> bool:
        if not self.quota.count:
            return True
        self._all_gone = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._all_gone.wait()
        except TimeoutError:
            return False
        return True

    def _sweep_later(self) -> None:
        interval_ms = SWEEP_MS_MAX
        if self.config.connections_max_idle_ms >= 0:
            interval_ms = max(10, min(interval_ms, self.config.connections_max_idle_ms // 4))
        self._sweep_timer = self.loop.call_later(interval_ms / 1000, self._swept)

    def _swept(self) -> None:
        self.sweep()
        self.log_limit.report()
        self._sweep_later()
