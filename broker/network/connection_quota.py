"""How many connections there may be: in all, per listener and per address. Pure counting."""

from __future__ import annotations

from collections import Counter

from broker.network.config import NetworkConfig


class ConnectionQuota:
    """Counts open connections against max.connections and max.connections.per.ip."""

    __slots__ = ("_config", "_per_address", "_per_listener", "count")

    def __init__(self, config: NetworkConfig) -> None:
        self._config = config
        self._per_address: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self.count = 0

    def admit(self, listener: str, listener_max: int, address: str) -> str | None:
        """Count one more connection, or say why it is one too many."""
        config = self._config
        if self.count >= config.max_connections:
            return f"there are {self.count} connections already (max.connections)"
        if self._per_listener[listener] >= listener_max:
            return f"listener {listener} has {listener_max} connections already (max.connections)"
        address_max = config.max_connections_per_ip_overrides.get(address, config.max_connections_per_ip)
        if self._per_address[address] >= address_max:
            return f"{address} has {address_max} connections already (max.connections.per.ip)"
        self.count += 1
        self._per_listener[listener] += 1
        self._per_address[address] += 1
        return None

    def release(self, listener: str, address: str) -> None:
        """One admitted connection is gone."""
        self.count -= 1
        self._per_listener[listener] -= 1
        self._per_address[address] -= 1
        if not self._per_address[address]:
            del self._per_address[address]
