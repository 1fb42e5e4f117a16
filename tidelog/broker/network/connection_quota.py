"""The limits of connections: in total, per listener and per address.

When max.connections is reached, a new connection waits until another one ends. When max.connections.per.ip is
reached, which also counts waiting connections, a new connection is refused. Connections on the inter-broker
listener do not wait (KIP-402).

Source: ConnectionQuotas of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tidelog.broker.network.config import UNLIMITED, NetworkConfig


class ConnectionQuota:
    """Counts connections against the limits of `config` and `listener_limits`, which may be replaced."""

    __slots__ = ("_per_address", "_per_listener", "config", "count", "listener_limits")

    def __init__(self, config: NetworkConfig) -> None:
        self.config = config
        self.listener_limits: dict[str, int] = {}
        """max.connections of each listener."""
        self._per_address: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self.count = 0
        """Connections that have a slot."""

    def configure(self, config: NetworkConfig, listener_limits: Mapping[str, int]) -> None:
        """Apply these limits; listeners that are not in `listener_limits` keep theirs."""
        self.config = config
        self.listener_limits.update(listener_limits)

    def admit(self, address: str) -> str | None:
        """Count a new connection of an address; return None, or the reason if its limit is reached."""
        config = self.config
        limit = config.max_connections_per_ip_overrides.get(address, config.max_connections_per_ip)
        if self._per_address[address] >= limit:
            return f"{address} already has {limit} connections (max.connections.per.ip)"
        self._per_address[address] += 1
        return None

    def release(self, address: str) -> None:
        """Stop counting a connection of an address, because it has ended."""
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def take_slot(self, listener: str) -> bool:
        """Count a connection of a listener; return False if a limit of the listener or broker is reached."""
        if self._per_listener[listener] >= self.listener_limits[listener]:
            return False
        if self.count >= self.config.max_connections and not self.is_protected(listener):
            return False
        self.count += 1
        self._per_listener[listener] += 1
        return True

    def free_slot(self, listener: str) -> None:
        """Stop counting a connection of a listener, because it has ended."""
        self.count -= 1
        self._per_listener[listener] -= 1

    def is_protected(self, listener: str) -> bool:
        """Return whether the listener is the inter-broker listener, which max.connections does not block."""
        return listener == self.config.inter_broker_listener and len(self.listener_limits) > 1

    @property
    def surplus(self) -> int:
        """The number of connections over max.connections, which must be closed."""
        return max(0, self.count - self.config.max_connections)

    @property
    def is_limited(self) -> bool:
        """Whether a limit is configured, so that connections may have to wait."""
        limits = (self.config.max_connections, *self.listener_limits.values())
        return any(limit < UNLIMITED for limit in limits)
