"""The rates of clients against the quotas of one key.

Only clients with a quota are measured. A change of the quotas in the metadata applies to the next request.

Source: ClientQuotaManager and ClientRequestQuotaManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.broker.quotas.entities import Entities
from tidelog.broker.quotas.rate import SampledRate, Windows
from tidelog.broker.quotas.resolution import Client, QuotaResolution
from tidelog.cluster.image import QuotaEntity


class ClientRate:
    """The rate of one entity, and how long it was throttled."""

    __slots__ = ("rate", "throttle_time_ms", "throttles")

    def __init__(self, windows: Windows) -> None:
        self.rate = SampledRate(windows)
        self.throttles = 0
        self.throttle_time_ms = 0
        """The sum of all throttle times."""


class ClientRates:
    """The rates of all clients that have a quota of one key.

    `throttle_time_max_ms` bounds a throttle time; None means no bound.
    """

    def __init__(self, key: str, windows: Windows, throttle_time_max_ms: int | None = None) -> None:
        self._resolution = QuotaResolution(key)
        self._windows = windows
        self._throttle_time_max_ms = throttle_time_max_ms
        self.entities: Entities[Client, ClientRate] = Entities()
        self.is_enabled = False
        """Whether any client has a quota."""

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Use the quotas of a new metadata image."""
        self._resolution.update(quotas)
        self.is_enabled = self._resolution.is_enabled
        if not self.is_enabled:
            self.entities.clear()

    def limit(self, client: Client) -> float | None:
        """Return the quota of a client; None if it has none."""
        found = self._resolution.resolve(client)
        return None if found is None else found.limit

    def record(self, client: Client, value: float, now_ms: int) -> int:
        """Record a value; return the throttle time in milliseconds."""
        found = self._resolution.resolve(client)
        if found is None:
            return 0
        state = self.entities.use(found.entity, lambda: ClientRate(self._windows), now_ms)
        state.rate.record(value, now_ms)
        return self._throttle_time_ms(state, found.limit, now_ms)

    def unrecord(self, client: Client, value: float, now_ms: int) -> None:
        """Take back a value that was recorded, because the client does not get the bytes."""
        self.record(client, -value, now_ms)

    def throttle_time_ms(self, client: Client, now_ms: int) -> int:
        """Return how long the client must wait, because of what was recorded before."""
        found = self._resolution.resolve(client)
        state = None if found is None else self.entities.get(found.entity)
        if found is None or state is None:
            return 0
        return self._throttle_time_ms(state, found.limit, now_ms)

    def count_throttle(self, client: Client, throttle_time_ms: int) -> None:
        """Count that a client was throttled because of this quota."""
        found = self._resolution.resolve(client)
        state = None if found is None else self.entities.get(found.entity)
        if state is not None:
            state.throttles += 1
            state.throttle_time_ms += throttle_time_ms

    def _throttle_time_ms(self, state: ClientRate, limit: float, now_ms: int) -> int:
        throttle_time_ms = state.rate.throttle_time_ms(limit, now_ms)
        bound_ms = self._throttle_time_max_ms
        return throttle_time_ms if bound_ms is None else min(throttle_time_ms, bound_ms)
