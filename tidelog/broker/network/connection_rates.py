"""The rates at which connections are created: on the broker, on a listener, and from an address (KIP-612).

    max.connection.creation.rate                        on all listeners but the inter-broker listener
    listener.name.<name>.max.connection.creation.rate   on one listener
    connection_creation_rate                            from an address, or from each; a client quota

A connection over the rate of the broker or its listener waits, and so do all later connections of the
listener. A connection over the rate of its address is closed after the throttle time, and counts for no rate.

Units: connections per second, monotonic milliseconds.
Bounds: a throttle time is at most one window; `Entities` bounds the addresses.
Source: ConnectionQuotas of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.base.entity_states import Entities
from tidelog.base.sampled_rate import SampledRate, Windows
from tidelog.broker.network.addresses import normalized_address
from tidelog.broker.network.config import UNLIMITED
from tidelog.cluster.client_quotas import IP
from tidelog.cluster.image import ClientQuotas

CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


class NewConnection(NamedTuple):
    """The decision about a new connection: it waits for `delay_ms`, and is then opened or closed."""

    delay_ms: int
    is_refused: bool


class ListenerRate:
    """The rate of one listener, and how long its connections were throttled."""

    __slots__ = ("address_throttle_time_ms", "limit", "rate", "throttle_time_ms")

    def __init__(self, limit: int, windows: Windows) -> None:
        self.limit = limit
        self.rate = SampledRate(windows)
        self.throttle_time_ms = 0
        """The sum of the throttle times because of the rates of the listener and the broker."""
        self.address_throttle_time_ms = 0
        """The sum of the throttle times because of rates of addresses."""


class ConnectionRates:
    """The limits and the rates of a broker; `is_limited` is False if there is no limit."""

    def __init__(self, windows: Windows, broker_limit: int = UNLIMITED) -> None:
        self.is_limited = False
        self.broker = SampledRate(windows)
        self.listeners: dict[str, ListenerRate] = {}
        self.addresses: Entities[str, SampledRate] = Entities()
        self._windows = windows
        self._broker_limit = broker_limit
        self._address_limits: dict[str, float] = {}
        self._default_limit: float | None = None

    def update(self, broker_limit: int, listener_limits: Mapping[str, int]) -> None:
        """Use changed limits of the broker and of listeners."""
        self._broker_limit = broker_limit
        for name, limit in listener_limits.items():
            self.listeners.setdefault(name, ListenerRate(limit, self._windows)).limit = limit
        self._update_is_limited()

    def update_address_limits(self, quotas: ClientQuotas, addresses: Mapping[str, str]) -> None:
        """Use changed limits of addresses; `addresses` has those of the known host names."""
        self._address_limits, self._default_limit = {}, None
        for entity, values in quotas.items():
            limit = values.get(CONNECTION_CREATION_RATE)
            if limit is None or entity[0][0] != IP:
                continue
            name = entity[0][1]
            if name is None:
                self._default_limit = limit
            else:
                self._set_address_limit(addresses.get(name, name), limit)
        self._update_is_limited()

    def admit(self, listener: str, address: str, now_ms: int, *, is_protected: bool) -> NewConnection:
        """Record a new connection; return whether and when it is opened.

        `is_protected`: the connection is on the inter-broker listener, for which the broker has no limit.
        """
        by_listener = self.listeners[listener]
        throttle_time_ms = self._record_address(address, now_ms)
        if throttle_time_ms:
            by_listener.address_throttle_time_ms += throttle_time_ms
            return NewConnection(throttle_time_ms, is_refused=True)
        by_listener.rate.record(1, now_ms)
        throttle_time_ms = by_listener.rate.throttle_time_ms(by_listener.limit, now_ms)
        if not is_protected:
            self.broker.record(1, now_ms)
            throttle_time_ms = max(throttle_time_ms, self.broker.throttle_time_ms(self._broker_limit, now_ms))
        throttle_time_ms = min(throttle_time_ms, self._windows.size_ms)
        by_listener.throttle_time_ms += throttle_time_ms
        return NewConnection(throttle_time_ms, is_refused=False)

    def _record_address(self, address: str, now_ms: int) -> int:
        """Record a connection of an address; return its throttle time, 0 if it is within its rate."""
        limit = self._address_limits.get(address, self._default_limit)
        if limit is None:
            return 0
        rate = self.addresses.use(address, lambda: SampledRate(self._windows), now_ms)
        rate.record(1, now_ms)
        throttle_time_ms = min(rate.throttle_time_ms(limit, now_ms), self._windows.size_ms)
        if throttle_time_ms:
            rate.record(-1, now_ms)
        return throttle_time_ms

    def _set_address_limit(self, name: str, limit: float) -> None:
        try:
            self._address_limits[normalized_address(name)] = limit
        except ValueError:
            return  # A host name whose address is not known.

    def _update_is_limited(self) -> None:
        limits = (self._broker_limit, *(one.limit for one in self.listeners.values()))
        has_address_limit = bool(self._address_limits) or self._default_limit is not None
        self.is_limited = has_address_limit or any(limit < UNLIMITED for limit in limits)
        if not has_address_limit:
            self.addresses.clear()
