"""The rates of clients against the quotas of one key.

Only clients with a quota are measured. A change of the quotas in the metadata applies to the next request.

Source: ClientQuotaManager and ClientRequestQuotaManager of Apache Kafka 4.3.
"""

from __future__ import annotations

from tidelog.base.entity_states import Entities
from tidelog.base.sampled_rate import SampledRate, Windows
from tidelog.broker.quotas.resolution import Client, QuotaResolution
from tidelog.cluster.image import ClientQuotas


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

    def update(self, quotas: ClientQuotas) -> None:
        """Use the quotas of a new metadata image."""
        self._resolution.update(quotas)
        self.is_enabled = self._resolution.is_enabled
        if not self.is_enabled:
            self.entities.clear()

    def limit(self, client: Client) -> float | None:
        """Return the quota of a client; None if it has none."""
        quota = self._resolution.resolve(client)
        return None if quota is None else quota.limit

    def record(self, client: Client, value: float, now_ms: int) -> int:
        """Record a value; return the throttle time in milliseconds."""
        quota = self._resolution.resolve(client)
        if quota is None:
            return 0
        state = self.entities.use(quota.entity, lambda: ClientRate(self._windows), now_ms)
        state.rate.record(value, now_ms)
        return self._throttle_time_ms(state, quota.limit, now_ms)

    def unrecord(self, client: Client, value: float, now_ms: int) -> None:
        """Subtract a value that was recorded, because the client does not get the bytes."""
        self.record(client, -value, now_ms)

    def throttle_time_ms(self, client: Client, now_ms: int) -> int:
        """Return how long the client must wait, because of what was recorded before."""
        quota = self._resolution.resolve(client)
        state = None if quota is None else self.entities.get(quota.entity)
        if quota is None or state is None:
            return 0
        return self._throttle_time_ms(state, quota.limit, now_ms)

    def count_throttle(self, client: Client, throttle_time_ms: int) -> None:
        """Count that a client was throttled because of this quota."""
        quota = self._resolution.resolve(client)
        state = None if quota is None else self.entities.get(quota.entity)
        if state is not None:
            state.throttles += 1
            state.throttle_time_ms += throttle_time_ms

    def _throttle_time_ms(self, state: ClientRate, limit: float, now_ms: int) -> int:
        """Return the throttle time of one entity, within `throttle_time_max_ms`."""
        throttle_time_ms = state.rate.throttle_time_ms(limit, now_ms)
        bound_ms = self._throttle_time_max_ms
        return throttle_time_ms if bound_ms is None else min(throttle_time_ms, bound_ms)
