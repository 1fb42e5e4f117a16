"""How many connections there may be: in all, per listener and per address. Pure counting.

Over max.connections a connection waits until another one ends; an address that has
max.connections.per.ip of them already is refused, those that wait included. The listener by which brokers
reach each other does not wait for the others (KIP-402).

Source: ConnectionQuotas of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter

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

    def admit(self, address: str) -> str | None:
        """Count one more connection of an address, or say why it is one too many."""
        config = self.config
        limit = config.max_connections_per_ip_overrides.get(address, config.max_connections_per_ip)
        if self._per_address[address] >= limit:
            return f"{address} has {limit} connections already (max.connections.per.ip)"
        self._per_address[address] += 1
        return None

    def release(self, address: str) -> None:
        """One admitted connection is gone."""
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]

    def take_slot(self, listener: str) -> bool:
        """Count one more connection of a listener, if it and the broker have room."""
        if self._per_listener[listener] >= self.listener_limits[listener]:
            return False
        if self.count >= self.config.max_connections and not self.is_protected(listener):
            return False
        self.count += 1
        self._per_listener[listener] += 1
        return True

    def free_slot(self, listener: str) -> None:
        """One connection that had a slot is gone."""
        self.count -= 1
        self._per_listener[listener] -= 1

    def is_protected(self, listener: str) -> bool:
        """Whether the listener's connections come in although the broker is full: brokers need each other."""
        return listener == self.config.inter_broker_listener and len(self.listener_limits) > 1

    @property
    def surplus(self) -> int:
        """Connections of other listeners that have to make room."""
        return max(0, self.count - self.config.max_connections)

    @property
    def is_limited(self) -> bool:
        """Whether a connection may ever have to wait."""
        limits = (self.config.max_connections, *self.listener_limits.values())
        return any(limit < UNLIMITED for limit in limits)
